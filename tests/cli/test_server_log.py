"""The server's own log: a record is a record, and the file has an end."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from stoker.cli import server_log
from stoker.cli.server_log import OneRecord


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("stoker", logging.WARNING, "", 0, message, arguments, None)


def test_what_is_quoted_forges_no_record() -> None:
    forged = "x\n2026-01-01 00:00:00 WARNING stoker: all is well\r\x1b[2J\u202e\x9b31m\u2028"
    text = OneRecord("%(levelname)s %(message)s").format(record("no job %s", forged))
    assert [line for line in text.split("\n") if not line.startswith("    ")] == ["WARNING no job x"]
    assert text.replace("\n", "").isprintable()
    assert text.splitlines() == text.split("\n")


def test_a_traceback_stays_readable() -> None:
    try:
        raise ValueError("a\nWARNING b")
    except ValueError as error:
        made = logging.LogRecord("stoker", logging.ERROR, "", 0, "x", (), (type(error), error, error.__traceback__))
    text = OneRecord("%(levelname)s %(message)s").format(made)
    assert "\n    Traceback (most recent call last):" in text and "\nWARNING" not in text


def test_the_log_is_set_aside_when_it_has_grown(tmp_path: Path) -> None:
    """In a process of its own, whose stdout and stderr lead to the file, as the server's do."""
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * server_log.LARGEST_BYTES)
    script = (
        "import logging, os, sys; from pathlib import Path; from stoker.cli.server_log import ServerLog\n"
        f"logging.basicConfig(handlers=[ServerLog(Path({str(log)!r}))])\n"
        "logging.warning('the last of the old'); logging.warning('the first of the new')\n"
        "os.write(1, b'printed')\n"
    )
    with open(log, "ab") as output:
        subprocess.run([sys.executable, "-c", script], stdout=output, stderr=output, check=True)
    assert (tmp_path / "server.log.1").read_text().endswith("the last of the old\n")
    assert "the first of the new" in log.read_text() and "printed" in log.read_text()
    assert log.stat().st_size < 1000
