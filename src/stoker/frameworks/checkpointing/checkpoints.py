"""Checkpoints in a folder: each whole or not there, known by its step, proved by the hashes of its files.

    step-000000140/     its files, and MANIFEST.json with the size and SHA-256 of each, written last
    .step-000000160.…   one that is being written; of a process that was killed, until the next save sweeps it up

A checkpoint is renamed into place when all of it is on the disk, so whoever is killed at any moment leaves the one before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

KEEP = 3
"""So many are kept. The newest whole one always is."""

MANIFEST = "MANIFEST.json"
_NAME = re.compile(r"step-(\d{9,})")
_CHUNK_BYTES = 1 << 20
_BEFORE = ".before"  # of a checkpoint that is being replaced by one of the same step


class Checkpoint(NamedTuple):
    """One that is whole."""

    step: int
    folder: str
    state: Dict[str, Any]  # what its writer said of it
    place: str  # of all of them, as it is said to people

    def path(self, name: str) -> str:
        """One of its files."""
        return os.path.join(self.folder, name)


class Checkpoints:
    """The checkpoints of one program."""

    look_seconds = 0.02  # how often it may be looked for what another process has handed in
    is_remote = (
        False  # so each process has a draft of its own, and nothing is written once the program's last line has run
    )

    def __init__(self, folder: str, keep: int = KEEP) -> None:
        """The folder is made when something is written."""
        self.folder = folder
        self.place = folder  # as it is said to people
        self.last_bytes = 0  # of the last one that was written here
        self._keep = keep

    def begin(self, step: int, writer: str) -> str:
        """The folder in which one is to be written. Several processes that say the same get the same one."""
        draft = os.path.join(self.folder, f".{self._name(step)}.{writer}")
        os.makedirs(draft, exist_ok=True)
        return draft

    def commit(
        self, draft: str, step: int, state: Dict[str, Any], proved: Optional[Dict[str, List[Any]]] = None
    ) -> str:
        """What is written counts from now on, and the oldest go. `proved`: files whose proof somebody else has taken."""
        target = self._path(step)
        files = {name: (proved or {}).get(name) or proof(os.path.join(draft, name)) for name in sorted(files_of(draft))}
        self.last_bytes = sum(size for size, _ in files.values())
        with open(os.path.join(draft, MANIFEST), "w", encoding="utf-8") as file:
            json.dump({"step": step, "state": state, "files": files}, file)
            file.flush()
            os.fsync(file.fileno())
        for folder in [draft, *_folders(draft)]:
            _sync_folder(folder)
        aside = f"{draft}{_BEFORE}"
        if os.path.exists(target):  # one that was not whole, or is written again
            os.rename(target, aside)
        os.rename(draft, target)
        _sync_folder(self.folder)
        shutil.rmtree(aside, ignore_errors=True)
        for old in self._steps()[self._keep :]:
            if old != step:  # there may be newer ones, all of them damaged
                shutil.rmtree(self._path(old), ignore_errors=True)
        return target

    def newest(self) -> int:
        """The number of the newest, whole or not; 0: there is none. Raises OSError."""
        return next(iter(self._steps()), 0)

    def latest(self) -> Optional[Checkpoint]:
        """The newest that is whole. None: there is none. Raises OSError."""
        return next((found for step in self._steps() for found in [self.at(step)] if found is not None), None)

    def at(self, step: int, *, is_proved: bool = False) -> Optional[Checkpoint]:
        """The one of a step, if it is there and whole. `is_proved`: somebody else has looked at its files.

        Raises OSError where that cannot be known: who began anew would write over what is there.
        """
        folder = self._path(step)
        try:
            with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
                told = json.load(file)
            paths = {os.path.join(folder, name): proved for name, proved in listed(told).items()}
            is_whole = is_proved or all(proof(path, sync=False) == proved for path, proved in paths.items())
            return Checkpoint(step, folder, told["state"], self.place) if is_whole else None
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def release(self, found: Checkpoint) -> None:
        """It was read, and is not needed here any more."""

    def hand_in(self, draft: str, step: int, rank: int, proved: Dict[str, List[Any]]) -> None:
        """Tell the chief that a process has written its part, with the proofs of its files. Raises OSError."""
        path = os.path.join(draft, _word_of(rank))
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(proved, file)
        os.replace(path + ".part", path)

    def handed_in(self, draft: str, rank: int) -> Optional[Dict[str, List[Any]]]:
        """What a process has told, once. None: nothing yet."""
        path = os.path.join(draft, _word_of(rank))
        try:
            with open(path, encoding="utf-8") as file:
                found: Dict[str, List[Any]] = json.load(file)
        except FileNotFoundError:
            return None
        os.remove(path)
        return found

    def _name(self, step: int) -> str:
        return f"step-{step:09}"

    def _path(self, step: int) -> str:
        return os.path.join(self.folder, self._name(step))

    def _steps(self) -> List[int]:
        """The newest first."""
        try:
            return steps_in(os.listdir(self.folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sweep(self) -> None:
        """Remove what others that were killed have left."""
        os.makedirs(self.folder, exist_ok=True)
        for name in os.listdir(self.folder):
            target = os.path.join(self.folder, name[1:].partition(".")[0])
            if name.startswith(".step-") and name.endswith(_BEFORE) and not os.path.exists(target):
                os.rename(os.path.join(self.folder, name), target)  # whoever was to replace it was killed in between
            elif name.startswith(".step-"):
                shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)


def steps_in(names: List[str]) -> List[int]:
    """The steps of all checkpoints among these names, the newest first."""
    return sorted((int(found[1]) for name in names for found in [_NAME.fullmatch(name)] if found), reverse=True)


def listed(manifest: Any) -> Dict[str, List[Any]]:
    """The files that a manifest names, with their proofs. Raises ValueError for one that is elsewhere."""
    found: Dict[str, List[Any]] = manifest["files"]
    for name in found:
        if os.path.isabs(name) or os.path.normpath(name).startswith(os.pardir):
            raise ValueError(name)
    return found


def _word_of(rank: int) -> str:
    return f"written-{rank}.json"


def files_of(folder: str) -> Iterator[str]:
    """The names of all files below a folder."""
    for base, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(base, name), folder)


def _folders(folder: str) -> Iterator[str]:
    for base, names, _ in os.walk(folder):
        for name in names:
            yield os.path.join(base, name)


def proof(path: str, *, sync: bool = True) -> List[Any]:
    """A file's size and hash, once it is on the disk."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        if sync:
            os.fsync(file.fileno())
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
        return [file.tell(), digest.hexdigest()]


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
