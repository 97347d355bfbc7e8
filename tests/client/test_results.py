"""Files of two runs, compared by what is in them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stoker.client.results import LARGEST_FILE_BYTES, compared, digest, results
from stoker.core.errors import NotFound, Unimplemented


def archive(path: Path, year: int, weights: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(zipfile.ZipInfo("weights.h5", (year, 1, 1, 0, 0, 0)), weights)
        file.writestr("metadata.json", f"saved in {year}")
    return path


def test_archives_are_the_same_whenever_they_were_written(tmp_path: Path) -> None:
    one, later = archive(tmp_path / "1.keras", 2025, b"w"), archive(tmp_path / "2.keras", 2026, b"w")
    assert digest(one) == digest(later) != digest(archive(tmp_path / "3.keras", 2025, b"v"))


def test_other_files_are_taken_as_they_are(tmp_path: Path) -> None:
    for name, text in (("a", "1"), ("b", "1"), ("c", "2"), ("empty", "")):
        (tmp_path / name).write_text(text)
    a, b, c, _ = (digest(tmp_path / name) for name in ("a", "b", "c", "empty"))
    assert a == b != c
    np.save(tmp_path / "one.npy", np.arange(3))
    np.save(tmp_path / "two.npy", np.arange(3))
    assert digest(tmp_path / "one.npy") == digest(tmp_path / "two.npy")


class Client:
    """A server that has some files, of which one goes away while it is looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def artifacts(self, project: str, job: str) -> Iterator[dict[str, Any]]:
        if job == "far":
            raise Unimplemented("az://there is where its program goes")
        for name in (
            "checkpoints/fit/1",
            "events.out.tfevents.1",
            "gone",
            "huge",
            "logs/events.out.tfevents.2",
            "model",
        ):
            size = LARGEST_FILE_BYTES + 1 if name == "huge" else 1
            yield {"name": name, "uri": f"gs://b/{name}", "size_bytes": size, "download": f"/files/{name}"}
        plain = str(self.folder / "plain")
        yield {"name": "plain", "uri": plain, "size_bytes": 1, "download": None}
        yield {"name": "elsewhere", "uri": str(self.folder / "of another machine"), "size_bytes": 1, "download": None}

    def save(self, uri: str, path: Path) -> None:
        if uri.endswith("gone"):
            raise NotFound("no file")
        path.write_text("model")


def test_what_a_run_has_left(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("model")
    found = results(Client(tmp_path), "local", "near")
    assert list(found) == ["model", "plain"] and found["model"] == found["plain"]
    assert results(Client(tmp_path), "local", "far") == {}


def test_compared() -> None:
    assert compared({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]
    assert compared({"a": "1"}, {"a": "1"}) == []
