"""What a run has left in its job directory, by what is in its files: two runs that came to the same left the same."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

from stoker.core.errors import StokerError

LARGEST_FILE_BYTES = 1 << 30
MOST_FILES = 500
_NOT_RESULTS = ("checkpoints/", "drill/", "logs/steps/")
"""Folders of a job directory that Stoker writes to: docs/checkpoints.md, docs/frameworks.md."""

_TIMES = ("events.out.tfevents",)
"""How files begin in which each line has the time at which it was written."""

_ABOUT = "metadata.json"  # in a .keras file: when it was saved


def results(client: Any, project: str, job: str) -> dict[str, str]:
    """The digests of the files below a job's directory, by name: of those that are its program's own, and not too large.

    Files of a directory that cannot be read from here, such as a plain path of another machine, are left out.
    """
    found = dict[str, str]()
    for file in islice(_files(client, project, job), MOST_FILES):
        try:
            with tempfile.TemporaryDirectory(prefix="stoker-drill-") as folder:
                path = Path(file["uri"])
                if file["download"]:
                    path = Path(folder, "file")
                    client.save(file["uri"], path)
                found[file["name"]] = digest(path)
        except (StokerError, OSError, zipfile.BadZipFile):
            continue  # it has gone, or is out of reach
    return found


def _files(client: Any, project: str, job: str) -> Iterator[Mapping[str, Any]]:
    try:
        for file in client.artifacts(project, job):
            name = file["name"]
            is_its_own = not name.startswith(_NOT_RESULTS) and not name.rpartition("/")[2].startswith(_TIMES)
            if is_its_own and file["size_bytes"] <= LARGEST_FILE_BYTES:
                yield file
    except StokerError:
        return  # a place that only the program can reach


def digest(path: Path) -> str:
    """A digest, the same for files of the same content. Times in archives (.keras, .npz, PyTorch's) are left out."""
    with path.open("rb") as file:
        if zipfile.is_zipfile(file):
            return _of_archive(file)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of_archive(file: IO[bytes]) -> str:
    with zipfile.ZipFile(file) as archive:
        parts = sorted((one.filename, one.file_size, one.CRC) for one in archive.infolist() if one.filename != _ABOUT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def compared(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of the files that are not in both, or of another content."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
