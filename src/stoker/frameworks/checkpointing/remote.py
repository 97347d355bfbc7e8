"""Checkpoints in a bucket, or on whatever else fsspec knows: written here, sent there, and whole once its manifest is there.

The same where the job's directory lies with the site, and is only a copy on this machine (site_file_system.py).

    step-000000140/     MANIFEST.json, sent last, and its files in a folder of the very save
    .step-000000160.…   what processes tell the chief of their parts of one that is being written

A bucket has no folders to rename: what has no manifest does not count. Its libraries (gcsfs, s3fs, …) are the program's.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import os
import shutil
import tempfile
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Optional

from stoker.frameworks.messages import Refused

from .checkpoints import KEEP, MANIFEST, Checkpoint, Checkpoints, files_of, listed, proof, steps_in
from .site_file_system import site_system


class StoredCheckpoints(Checkpoints):
    """The checkpoints of one program, below a URL. Errors of a bucket are OSErrors here."""

    look_seconds = 1.0
    is_remote = True  # by a library with threads, which Python ends before ours

    def __init__(self, url: str, keep: int = KEEP) -> None:
        """Raises Refused where there is no library for it."""
        self._system: Any
        self._system, self._root = site_system(url, os.environ) or _opened(url)
        super().__init__(tempfile.mkdtemp(prefix="stoker-checkpoints-"), keep)
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.place = url

    def commit(
        self, draft: str, step: int, state: Dict[str, Any], proved: Optional[Dict[str, List[Any]]] = None
    ) -> str:
        """Send what is here, then the manifest; then the oldest go."""
        others, below = dict(proved or {}), _writer_of(draft)
        files = {**others, **{name: others.get(name) or proof(os.path.join(draft, name)) for name in files_of(draft)}}
        self.last_bytes = sum(size for size, _ in files.values())
        told = {"step": step, "state": state, "files": files, "below": below}
        self._send(draft, step, list(files_of(draft)))
        self._put(self._remote(step, MANIFEST), json.dumps(told).encode())
        shutil.rmtree(draft, ignore_errors=True)
        self._remove(self._remote_draft(draft))
        self._tidy(step, below)
        return f"{self.place}/{self._name(step)}"

    def _tidy(self, step: int, below: str) -> None:
        """What is older than the newest whole ones goes, and what else was written of this step. Nothing depends on it."""
        try:
            whole = [one for one in self._steps() if one == step or self._is_there(self._remote(one, MANIFEST))]
            for old in self._steps():
                if old != step and old not in whole[: self._keep] and (old in whole or old < step):
                    self._remove(self._remote(old, MANIFEST))  # first of all, so that half of one never counts
                    self._remove(self._remote(old))
            for path in self._ask(lambda: self._system.ls(self._remote(step), detail=False)):
                if str(path).rstrip("/").rpartition("/")[2] not in (below, MANIFEST):
                    self._remove(str(path))
        except OSError:
            return  # the next one will see to it

    def at(self, step: int, *, is_proved: bool = False) -> Optional[Checkpoint]:
        """The one of a step, brought here. Raises OSError where the bucket cannot be asked: who knows what it has."""
        try:
            told = json.loads(self._ask(lambda: self._system.cat_file(self._remote(step, MANIFEST))))
            folder = os.path.join(self.folder, self._name(step), os.path.basename(told["below"]))
            for name, proved in listed(told).items():
                path = os.path.join(folder, name)
                if not os.path.exists(path):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    self._bring(self._remote(step, f"{told['below']}/{name}"), path)
                if proof(path, sync=False) != proved:
                    os.remove(path)
                    return None
            return Checkpoint(step, folder, told["state"], self.place)
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def release(self, found: Checkpoint) -> None:
        """It takes room here."""
        shutil.rmtree(os.path.join(self.folder, self._name(found.step)), ignore_errors=True)

    def sweep(self) -> None:
        """Remove what others that were killed have told each other."""
        for name in self._names():
            if name.startswith(".step-"):
                self._remove(f"{self._root}/{name}")

    def hand_in(self, draft: str, step: int, rank: int, proved: Dict[str, List[Any]]) -> None:
        """Send the files first."""
        self._send(draft, step, list(proved))
        self._put(f"{self._remote_draft(draft)}/{rank}.json", json.dumps(proved).encode())

    def handed_in(self, draft: str, rank: int) -> Optional[Dict[str, List[Any]]]:
        """It stays there until all is sent."""
        try:
            word = self._ask(lambda: self._system.cat_file(f"{self._remote_draft(draft)}/{rank}.json"))
            found: Dict[str, List[Any]] = json.loads(word)
        except (FileNotFoundError, ValueError):  # or half of it
            return None
        return found

    def _steps(self) -> List[int]:
        return steps_in(self._names())

    def _names(self) -> List[str]:
        """What is there at the top."""
        self._system.invalidate_cache()
        try:
            paths = self._ask(lambda: self._system.ls(self._root, detail=False))
        except OSError as error:
            if isinstance(error, FileNotFoundError) or error.errno == errno.ENOENT:
                return []
            raise
        return [str(path).rstrip("/").rpartition("/")[2] for path in paths]

    def _remote(self, step: int, name: str = "") -> str:
        return f"{self._root}/{self._name(step)}" + (f"/{name}" if name else "")

    def _remote_draft(self, draft: str) -> str:
        return f"{self._root}/{os.path.basename(draft)}"

    def _send(self, draft: str, step: int, names: List[str]) -> None:
        """Below the name of this very save: one of the same step that counts stays as it is until this one does."""
        for name in names:
            path, to = os.path.join(draft, name), self._remote(step, f"{_writer_of(draft)}/{name}")
            self._ask(lambda path=path, to=to: self._system.put_file(path, to))  # type: ignore[misc]

    def _put(self, path: str, data: bytes) -> None:
        try:
            self._ask(lambda: self._system.pipe_file(path, data))
        except FileNotFoundError:  # it has folders, which somebody has to make
            self._ask(lambda: self._system.makedirs(path.rpartition("/")[0], exist_ok=True))
            self._ask(lambda: self._system.pipe_file(path, data))

    def _bring(self, remote: str, path: str) -> None:
        self._ask(lambda: self._system.get_file(remote, path + ".part"))
        os.replace(path + ".part", path)

    def _is_there(self, path: str) -> bool:
        return bool(self._ask(lambda: self._system.exists(path)))

    def _remove(self, path: str) -> None:
        """If it may be."""
        try:
            self._ask(lambda: self._system.rm(path, recursive=True))
        except OSError:
            return

    def _ask(self, what: Callable[[], Any]) -> Any:
        """Each library has errors of its own. Raises OSError."""
        try:
            with _silent():
                return what()
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def _writer_of(draft: str) -> str:
    """The part of a draft's name that no other save of the step has."""
    return os.path.basename(draft).lstrip(".").partition(".")[2]


@contextmanager
def _silent() -> Iterator[None]:
    """Silence libraries that log tracebacks of what they raise as well."""
    found = [logging.getLogger(name) for name in ("gcsfs", "s3fs", "adlfs")]
    before = [logger.disabled for logger in found]
    for logger in found:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(found, before):
            logger.disabled = was_disabled


def _opened(url: str) -> "tuple[Any, str]":
    """The file system, and the path in it."""
    kind = url.partition("://")[0]
    try:
        core: Any = import_module("fsspec.core")
        system, root = core.url_to_fs(url, **({"auto_mkdir": True} if kind == "file" else {}))
    except ImportError as error:
        library = {"gs": "gcsfs", "gcs": "gcsfs", "s3": "s3fs", "az": "adlfs", "abfs": "adlfs"}.get(kind, "fsspec")
        raise Refused(
            f"checkpoints are to go to {url}, and the program's environment has no library for {kind}:// ({error})",
            f"add {library} to its requirements, or give a --job-dir that is a folder",
        ) from None
    except Exception as error:
        raise Refused(
            f"checkpoints are to go to {url}, which cannot be opened ({type(error).__name__}: {error})",
            "see to its credentials, or give a --job-dir that is a folder",
        ) from None
    return system, str(root).rstrip("/")


def checkpoints_at(place: str) -> Checkpoints:
    """The checkpoints in a folder, below a URL, or in a folder that lies elsewhere."""
    is_elsewhere = "://" in place or site_system(place, os.environ) is not None
    return StoredCheckpoints(place) if is_elsewhere else Checkpoints(place)
