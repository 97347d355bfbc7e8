"""Packs this room, and what programs use of Stoker, into one file that any Python from 3.9 on can run."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zipfile

HOOK, HOOKS = "sitecustomize.py", "hooks"
"""A folder in the archive: on a program's PYTHONPATH it adapts the program's frameworks (frameworks/entry/sitecustomize.py)."""

START = """import sys

sys.path.insert(0, sys.argv[-2])
try:
    from stoker.runtime.supervise import main
except Exception as error:  # the archive was damaged or removed while it was read: nothing has begun
    sys.exit(f"the runtime cannot be read: {error}")

sys.exit(main(sys.argv[-1]))
"""
"""What a supervisor begins with, given the archive and its folder: by `-c`, since Python shows a traceback of its own where it
cannot read the file that it is to run."""


def build(folder: str) -> str:
    """The path of the zipapp in this folder, named by its content; made if it is not there yet, or is damaged.

    Beside each source lies its bytecode for the Python that packs; another Python finds that it does not fit and compiles.
    """
    house = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = {"__main__.py": START.encode()}
    for name in ("__init__.py", "beat_files.py", "checkpoint.py"):
        with open(os.path.join(house, name), "rb") as file:
            files[f"stoker/{name}"] = file.read()
    for path in sorted(_sources(house, "runtime") + _sources(house, "frameworks")):
        name = os.path.basename(path)
        if name not in ("__main__.py", "zipapp.py"):
            with open(os.path.join(house, path), "rb") as file:
                files[f"stoker/{path}" if name != HOOK else f"{HOOKS}/{name}"] = file.read()
    digest = hashlib.sha256(b"".join(n.encode() + b for n, b in files.items()) + importlib.util.MAGIC_NUMBER)
    path = os.path.join(folder, f"runtime-{digest.hexdigest()[:16]}.pyz")
    if not _is_whole(path, files):
        os.makedirs(folder, exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            for name, source in files.items():
                archive.writestr(name, source)
                archive.writestr(name + "c", _bytecode(source, name))
        os.chmod(part, 0o644)  # programs of other users load parts of it
        os.replace(part, path)
    return path


def _sources(house: str, room: str) -> "list[str]":
    """The Python files of a room and of the folders in it, as paths below the house."""
    found = []
    for folder, _, names in os.walk(os.path.join(house, room)):
        below = os.path.relpath(folder, house).replace(os.sep, "/")
        found += [f"{below}/{name}" for name in names if name.endswith(".py")]
    return found


def _is_whole(path: str, files: "dict[str, bytes]") -> bool:
    """Whether what lies there is what would be packed: the sources byte by byte, their bytecode by its checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            is_ours = all(archive.read(name) == source and archive.read(name + "c") for name, source in files.items())
            return is_ours and len(archive.namelist()) == 2 * len(files)
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        return False


def _bytecode(source: bytes, name: str) -> bytes:
    """A .pyc that is never checked against its source (PEP 552: flags 0b01, the source's hash)."""
    import marshal

    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    return header + marshal.dumps(code)
