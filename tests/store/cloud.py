"""A cloud for tests."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem


class FakeCloud(MemoryFileSystem):  # type: ignore[misc]
    """A cloud in memory; like gcsfs, it shows a file only once it is committed."""

    protocol = ("gs",)
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs: list[str] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("gs://").strip("/")

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **options: Any) -> Any:
        if mode != "wb":
            return super()._open(path, mode, **options)
        file = MemoryFile(self, path)
        if autocommit:
            file.commit()
        return file
