"""What keeping a copy of a job's directory in step costs on another machine: to and from the site, beside plain copies.

The replica's part runs in this process, by the token of a job that runs, so that no other machine is needed; the way is loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stoker.runtime.mirror import Mirror, Traffic
from stoker.runtime.server import Server as Way
from stoker.runtime.site_folder import SiteFolder

from .measure import Row, ratio
from .server import PROJECT, Server, wait_until

RUNS = 5
_LARGE_BYTES = 256 << 20
_SMALL_BYTES, _SMALL = 10_000, 300
_LOOKED_AT = 5_000


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder, Server() as server:
        server.client.run(
            PROJECT, {"name": "waits", "command": ["sleep", "3600"], "job_dir": "gs://bench-bucket/waits"}
        )
        told = server.home / "runs" / PROJECT / "waits.1" / "chief-0" / "request.json"
        wait_until(told.exists, "the job to start")
        base = Path(folder)
        mirror = Mirror(
            str(base / "here"), SiteFolder(Way(json.loads(told.read_text())), 0), Traffic(), lambda *_: None
        )
        assert mirror.hold()
        (base / "here").mkdir()
        for name, files, size in (
            ("a file of 256 MiB", 1, _LARGE_BYTES),
            (f"{_SMALL} files of 10 kB", _SMALL, _SMALL_BYTES),
        ):
            yield from _there_and_back(mirror, base, name, files, size, runs)
        yield from _looks(mirror, base, runs)
        mirror.release()


def _there_and_back(mirror: Mirror, base: Path, name: str, files: int, size: int, runs: int) -> Iterator[Row]:
    here, source, target = Path(mirror.folder), base / "source", base / "target"
    _fill(source, files, size)
    ways: dict[str, list[float]] = {"a plain copy": [], "sent": [], "brought": []}
    for run in range(runs + 1):  # the first is not measured
        shutil.rmtree(target, ignore_errors=True)
        taken = {"a plain copy": _seconds(lambda: _copy(source, target))}
        _empty(mirror)
        _copy(source, here / "part")
        taken["sent"] = _seconds(lambda: _all(mirror))
        taken["brought"] = _brought(mirror, base)
        for way, seconds in taken.items() if run else ():
            ways[way].append(files * size / 1e6 / seconds)
    peer, *ours = ways
    yield Row(what=f"{name}, {peer}, synced", unit="MB/s", samples=ways[peer])
    for way in ours:
        yield Row(what=f"{name}, {way}", unit="MB/s", samples=ways[way], ratio=ratio(ways[way], ways[peer]), peer=peer)
    _empty(mirror)
    shutil.rmtree(source)


def _brought(mirror: Mirror, base: Path) -> float:
    """Seconds, into a copy of its own."""
    other = Mirror(str(base / "other"), mirror._remote, Traffic(), lambda *_: None)
    assert other.hold()
    seconds = _seconds(lambda: other.bring(lambda files, size: None, lambda: False))
    other.release()
    for left in base.glob("other*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return seconds


def _looks(mirror: Mirror, base: Path, runs: int) -> Iterator[Row]:
    """What it costs once a second while nothing changes."""
    here = Path(mirror.folder)
    _fill(here / "part", _LOOKED_AT, 0)
    _all(mirror)
    bare, ours = [], []
    for _ in range(runs):
        bare.append(1e3 * _seconds(lambda: _walk(here)))
        ours.append(1e3 * _seconds(lambda: _all(mirror)))
    peer = "os.walk with a stat of each"
    yield Row(what=f"{_LOOKED_AT} files that have not changed, {peer}", unit="ms", samples=bare)
    yield Row(
        what=f"{_LOOKED_AT} files that have not changed, a look",
        unit="ms",
        samples=ours,
        ratio=ratio(ours, bare),
        peer=peer,
    )


def _fill(folder: Path, files: int, size: int) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:05}").write_bytes(os.urandom(size))


def _copy(source: Path, target: Path) -> None:
    """Each file, and then it is on the disk."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        shutil.copyfile(path, target / path.name)
        with open(target / path.name, "rb") as file:
            os.fsync(file.fileno())


def _walk(folder: Path) -> None:
    for base, _, names in os.walk(folder):
        for name in names:
            os.stat(os.path.join(base, name))


def _all(mirror: Mirror) -> None:
    assert mirror.look(is_final=True)


def _empty(mirror: Mirror) -> None:
    shutil.rmtree(Path(mirror.folder) / "part", ignore_errors=True)
    _all(mirror)


def _seconds(way: Callable[[], object]) -> float:
    os.sync()
    begin = time.perf_counter()
    way()
    return time.perf_counter() - begin
