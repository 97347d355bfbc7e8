"""The text of a file: gzip or plain by its first bytes, UTF-8, and never a surprise further in."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, NotFound, Violation

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 1 << 16
NOT_TEXT: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive", "unpack it and name the file inside"),
    (257, b"ustar", "a tar archive", "unpack it (tar -xf) and name the file inside"),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the data", "fetch the data (git lfs pull)"),
    (0, b"\xff\xfe", "UTF-16", "save it as UTF-8"),
    (0, b"\xfe\xff", "UTF-16", "save it as UTF-8"),
    (0, b"PAR1", "a Parquet file", "export it as CSV"),
)
"""What a file may begin with instead: where, which bytes, what it is, what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that has been read."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The file's name, as problems say it."""
        return self.path.name

    @property
    def stem(self) -> str:
        """The name without its endings, as a trace is called."""
        name = self.name.removesuffix(".gz")
        return name.rpartition(".")[0] or name

    def sibling(self, *stems: str) -> Source | None:
        """The first of these files that lies beside it, as .csv or .csv.gz."""
        for stem in stems:
            for ending in (".csv", ".csv.gz"):
                path = self.path.with_name(stem + ending)
                if path.is_file():
                    return read_source(path)
        return None


def read_source(path: Path) -> Source:
    """The whole file as text."""
    data = _content(path)
    _refuse_what_is_no_text(path, data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        what = f"byte {data[error.start]:#04x} is not UTF-8"
        raise BadSpec([Violation(f"{path.name}:{line}", what)], fix="save the file as UTF-8") from None
    if not text.strip():
        raise BadSpec([Violation(path.name, "is empty")], fix="name a file with a header and rows")
    return Source(path, text)


def head_of(path: Path) -> str:
    """How a file begins."""
    data = _content(path, HEAD_BYTES)
    _refuse_what_is_no_text(path, data)
    if not data.strip():
        raise BadSpec([Violation(path.name, "is empty")], fix="name a file with a header and rows")
    return data.decode("utf-8-sig", errors="replace")


def files_in(folder: Path) -> list[Path]:
    """The plain files of a folder, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _content(path: Path, most_bytes: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            if not packed:
                return file.read(most_bytes)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return unpacked.read(most_bytes)
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = "ends in the middle of its gzip data" if isinstance(error, EOFError) else f"is broken gzip: {error}"
        raise BadSpec([Violation(path.name, what)], fix="copy or download the file again") from None
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise BadSpec([Violation(path.name, what)], fix="name a file that you may read") from None


def _refuse_what_is_no_text(path: Path, data: bytes) -> None:
    for start, magic, what, fix in NOT_TEXT:
        if data[start : start + len(magic)] == magic:
            raise BadSpec([Violation(path.name, f"is {what}")], fix=fix)
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise BadSpec([Violation(f"{path.name}:{line}", "is binary, not text")], fix="name a CSV or JSON file")
