"""Output cut into lines."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runtime.lines import LONGEST_LINE_BYTES, Lines, Log
from stoker.runtime.server import Server


def cut(*chunks: bytes) -> list[str]:
    lines = Lines()
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.end()


def test_lines_wherever_the_chunks_end() -> None:
    assert cut(b"one\ntw", b"o\nthr", b"ee") == ["one", "two", "three"]


def test_blank_lines_are_dropped() -> None:
    assert cut(b"\n\n a \n  \n") == [" a"]


def test_of_a_progress_bar_the_last_writing_counts() -> None:
    assert cut(b"1/3\r2/3\r3/3\nnext\r\n") == ["3/3", "next"]
    assert cut(b"epoch\x08\x08\x08\x08\x08done\n") == ["epochdone"]


def test_an_endless_line_is_cut_into_several_and_nothing_is_lost() -> None:
    for chunks in ([b"x" * 3 * LONGEST_LINE_BYTES], [b"x" * 1000] * 300, [b"x" * 200_000 + b"\n"]):
        found = cut(*chunks)
        assert all(len(line) <= LONGEST_LINE_BYTES for line in found)
        assert sum(map(len, found)) == len(b"".join(chunks).rstrip())


def test_of_a_progress_bar_longer_than_any_line_nothing_else_is_left() -> None:
    bar = b"".join(b"\r%5d/20000 [####]" % n for n in range(1, 20_001))
    for size in (1000, LONGEST_LINE_BYTES, len(bar)):
        chunks = [bar[at : at + size] for at in range(0, len(bar), size)]
        assert cut(*chunks) == cut(*chunks, b"\nnext\n")[:-1] == ["20000/20000 [####]"]
    assert cut(b"x\r" + b"\r" * 3 * LONGEST_LINE_BYTES, b"\n") == ["x"]


@pytest.mark.parametrize("character", ["x", "ä", "€", "🙂"])
@pytest.mark.parametrize("before", range(4))
def test_a_long_line_is_not_cut_within_a_character(character: str, before: int) -> None:
    text = "-" * before + character * 50_000
    for data in (text.encode(), text.encode() + b"\n"):
        for size in (1000, LONGEST_LINE_BYTES, len(data)):
            found = cut(*[data[at : at + size] for at in range(0, len(data), size)])
            assert "".join(found) == text
            assert all(len(line.encode()) <= LONGEST_LINE_BYTES for line in found)


def test_what_is_not_utf_8_is_cut_all_the_same() -> None:
    found = cut(b"\x80" * 3 * LONGEST_LINE_BYTES)
    assert "".join(found) == "\ufffd" * 3 * LONGEST_LINE_BYTES and len(found) == 3


def test_what_is_not_utf_8_is_kept_readable() -> None:
    assert cut(b"ok \xff\xfe ok\n") == ["ok \ufffd\ufffd ok"]


@given(
    st.lists(st.text(alphabet=st.characters(blacklist_characters="\r\n\x08", blacklist_categories=["Cs"]))), st.data()
)
def test_any_text_comes_out_as_it_went_in(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(text + "\n" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert cut(*chunks) == [text.rstrip() for text in texts if text.rstrip()]


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\x08", b" ", b"\xc3", b"\xa4", b"\xff"])), st.integers(1, 5))
def test_the_lines_are_the_same_wherever_the_chunks_end(parts: list[bytes], size: int) -> None:
    whole = b"".join(parts)
    chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert cut(*chunks) == cut(whole) == cut(whole, b"\r")


class Taker:
    """A server that takes everything, and keeps it."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def post(self, what: str, body: bytes) -> dict[str, Any]:
        self.bodies.append(json.loads(body))
        return {}

    @property
    def numbers(self) -> list[int]:
        return [line["n"] for body in self.bodies for line in body["lines"]]


def a_log(folder: Path) -> tuple[Log, Taker]:
    taker = Taker()
    return Log(str(folder / "log.jsonl"), cast(Server, taker)), taker


def numbers_on_disk(folder: Path) -> list[int]:
    """Of the records that are whole."""
    whole = [line for line in (folder / "log.jsonl").read_text().splitlines() if line.endswith("}")]
    return [json.loads(line)["n"] for line in whole]


def test_every_line_is_shipped_once_and_the_report_comes_last(tmp_path: Path) -> None:
    log, taker = a_log(tmp_path)
    for n in range(500):
        log.write("out", f"{n} " + "x" * 10_000)
    log.report({"seen": "SUCCEEDED"})
    log.drain(10)
    assert taker.numbers == list(range(1, 501))
    assert [body.get("seen") for body in taker.bodies][-1] == "SUCCEEDED"
    assert not any("seen" in body for body in taker.bodies[:-1])
    assert all(sum(len(line["m"]) for line in body["lines"]) < 2 << 20 for body in taker.bodies), "in bounded requests"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_with_a_full_disk_lines_are_shipped_from_memory(tmp_path: Path) -> None:
    log, taker = a_log(tmp_path)
    log.write("out", "one")
    on_disk, log._file = log._file, open("/dev/full", "wb", buffering=0)
    log.write("err", "two")
    log.write("out", "three")
    with log._lock:  # the shipper may be trying the disk again
        log._file.close()
        log._file = on_disk
    log.write("out", "four")
    log.drain(10)
    assert taker.numbers == [1, 2, 3, 4] and log.last_number == 4
    assert numbers_on_disk(tmp_path) == [1, 2, 3, 4], "who reads the file finds no later line before an earlier one"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_with_a_full_disk_nothing_counts_as_kept_before_there_is_room(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log.jsonl"), None)  # and no server that would take it
    on_disk, log._file = log._file, open("/dev/full", "wb", buffering=0)
    log.write("out", "one")
    assert not log.is_on_disk()
    log._file.close()
    log._file = on_disk
    assert log.is_on_disk() and numbers_on_disk(tmp_path) == [1]
    log.drain(10)


def test_a_line_that_the_disk_cut_off_spoils_no_other(tmp_path: Path) -> None:
    class Short:
        """Takes ten bytes of the first write."""

        def __init__(self, file: Any) -> None:
            self.file, self.is_first = file, True

        def write(self, data: bytes) -> int:
            part, self.is_first = (data[:10] if self.is_first else data), False
            return int(self.file.write(part))

        def close(self) -> None:
            self.file.close()

    log, taker = a_log(tmp_path)
    log._file = Short(log._file)  # type: ignore[assignment]
    for text in ("one", "two", "three"):
        log.write("out", text)
    log.drain(10)
    assert sorted(taker.numbers) == [1, 2, 3]
    assert numbers_on_disk(tmp_path) == [1, 2, 3]


@given(st.lists(st.lists(st.text(max_size=3), max_size=3), max_size=6), st.lists(st.integers(0, 120), max_size=6))
def test_wherever_a_full_disk_cuts_off_every_line_is_shipped_once(batches: list[list[str]], rooms: list[int]) -> None:
    class Full:
        """Takes so many bytes of each write; none is an error."""

        def __init__(self, file: Any) -> None:
            self.file, self.rooms = file, [*rooms]

        def write(self, data: bytes) -> int:
            room = self.rooms.pop() if self.rooms else len(data)
            if not room:
                raise OSError("no space left on device")
            return int(self.file.write(data[:room]))

        def close(self) -> None:
            self.file.close()

    with tempfile.TemporaryDirectory() as folder:
        log, taker = a_log(Path(folder))
        log._file = Full(log._file)  # type: ignore[assignment]
        for batch in batches:
            log.write_all("out", batch)
        log.drain(10)
        kept: list[dict[str, Any]] = []
        for line in (line for body in taker.bodies for line in body["lines"]):
            if not kept or line["n"] > kept[-1]["n"]:  # as the server keeps them
                kept.append(line)
        assert [line["n"] for line in kept] == list(range(1, log.last_number + 1))
        assert [line["m"] for line in kept] == [text for batch in batches for text in batch]


class Forgetful(Taker):
    """Loses all lines once, as a server whose log was deleted or restored from a backup, and asks for them again."""

    def __init__(self, loses_at: int) -> None:
        super().__init__()
        self.kept: list[int] = []
        self.loses_at = loses_at
        self.seen = ""

    def post(self, what: str, body: bytes) -> dict[str, Any]:
        told = json.loads(body)
        if self.loses_at and len(self.kept) >= self.loses_at:
            self.kept, self.loses_at = [], 0
        last = self.kept[-1] if self.kept else 0
        if told.get("after", 0) > last:
            return {"after": last}
        self.kept += [line["n"] for line in told["lines"] if line["n"] > last]
        self.seen = told.get("seen", "")
        return {}


@pytest.mark.parametrize("loses_at", [1, 30, 500])
def test_what_the_server_has_lost_is_shipped_again_from_the_disk(tmp_path: Path, loses_at: int) -> None:
    server = Forgetful(loses_at)
    log = Log(str(tmp_path / "log.jsonl"), cast(Server, server))
    for n in range(500):
        log.write("out", f"{n} " + "x" * 10_000)
    while loses_at == 500 and len(server.kept) < 500:  # the report alone comes after they were lost
        log._thread.join(0.01)
    log.report({"seen": "SUCCEEDED"})
    log.drain(10)
    assert server.kept == list(range(1, 501)) and server.seen == "SUCCEEDED" and not server.loses_at


def test_a_server_that_never_stops_asking_keeps_nobody_from_ending(tmp_path: Path) -> None:
    class Never(Taker):
        """Has lost them for good."""

        def post(self, what: str, body: bytes) -> dict[str, Any]:
            super().post(what, body)
            return {"after": 0}

    log = Log(str(tmp_path / "log.jsonl"), cast(Server, Never()))
    for _ in range(10):
        log.write("out", "x")
    log.report({"seen": "SUCCEEDED"})
    log.drain(10)
    assert not log._thread.is_alive()


def test_a_record_longer_than_a_batch_is_shipped_like_any_other(tmp_path: Path) -> None:
    log, taker = a_log(tmp_path)
    log.write_all("out", ["\0" * LONGEST_LINE_BYTES, "next"])
    log.drain(10)
    assert taker.numbers == [1, 2]
