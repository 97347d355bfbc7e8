"""How serious a line is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.dialects.logging_v2.severity import SEVERITIES, Said, read_line


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("epoch 1/5", "INFO"),
        ("2026-11-20 12:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.", "INFO"),
        ("2026-11-20 12:00:00.123456: W tensorflow/stream_executor.cc:1] no GPU", "WARNING"),
        ("2026-11-20 12:00:00.123: E external/local_xla/xla/cuda_dnn.cc:9261] x", "ERROR"),
        ("2026-11-20 12:00:00.123: F tensorflow/core/x.cc:1] Check failed", "CRITICAL"),
        ("I1120 12:00:00.123456   12345 file.cc:12] started", "INFO"),
        ("W20261120 12:00:00.123456 12345 file.cc:12] glog with the year", "WARNING"),
        ("E0000 00:00:1795198800.123456   12345 cuda_dnn.cc:8310] absl before it is set up", "ERROR"),
        ("E1120 12:00:00.123456789   12345 server_chttp2.cc:40] gRPC", "ERROR"),
        ("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR", "WARNING"),
        ("WARNING:root:careful", "WARNING"),
        ("INFO:tensorflow:loss = 0.1", "INFO"),
        ("CRITICAL:a.b-c:x", "CRITICAL"),
        ("DEBUG:x:y", "DEBUG"),
    ],
)
def test_a_line_keeps_a_level_of_its_own(text: str, severity: str) -> None:
    assert read_line("out", text) == Said(severity, text)
    if text != "epoch 1/5":
        assert read_line("err", text) == Said(severity, text)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        '  File "task.py", line 1, in <module>',
        "ValueError: I tensorflow",
        "WARNING: this is nobody's form",
        "Informally",
        "E1120 is a road",
        "{",
        "{}",
        '{"a": 1}',
        '{"message": 3}',
        '["message"]',
        "{" * 100_000 + "}",
        "",
    ],
)
def test_what_goes_to_stderr_is_an_error_otherwise(text: str) -> None:
    assert read_line("err", text) == Said("ERROR", text)
    assert read_line("out", text) == Said("INFO", text)
    assert read_line("service", text) == Said("INFO", text)


def test_a_line_that_is_json_says_what_it_is() -> None:
    assert read_line("err", '{"severity": "NOTICE", "message": "m"}') == Said("NOTICE", "m")
    assert read_line("out", '{"severity": "warn", "message": "m", "step": 3}') == Said("WARNING", "m", {"step": 3})
    assert read_line("err", '{"message": "m"}') == Said("ERROR", "m")
    assert read_line("out", '{"severity": "LOUD", "message": "m"}') == Said("INFO", "m")
    assert read_line("out", '{"severity": ["ERROR"], "message": "m"}') == Said("INFO", "m")


def test_what_no_reader_of_json_can_take_becomes_text() -> None:
    line = '{"message": "a\\ud800b", "loss": NaN, "x": 1e999, "n": 12345678901234567890, "y": -1.5, "z": -7}'
    found = read_line("out", line)
    fields = {"loss": "NaN", "x": "1e999", "n": "12345678901234567890", "y": -1.5, "z": -7}
    assert found == Said("INFO", "a?b", fields)


@given(st.sampled_from(["out", "err", "service"]), st.text() | st.from_regex(r"[IWEF]?\d{4}.*|\{.*\}"))
def test_any_line_has_a_severity(stream: str, text: str) -> None:
    assert read_line(stream, text).severity in SEVERITIES
