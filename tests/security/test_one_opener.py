"""One module opens what lies in buckets and job directories: a path that is checked here and opened there is a race."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import stoker

SOURCE = Path(stoker.__file__).parent
ROOMS = ("api", "control", "kinds", "scheduling", "store")
OPENERS = ("store/root.py", "store/way.py")
_OF_OS = frozenset(
    "open stat lstat access chmod chown link symlink readlink mkdir makedirs remove removedirs rename renames replace rmdir"
    " unlink utime truncate walk fwalk listdir scandir mkfifo mknod".split()
)
_OF_OS_PATH = frozenset("exists lexists isfile isdir islink getsize getmtime getctime realpath samefile".split())
_OF_PATHS = frozenset(
    "chmod exists glob is_dir is_fifo is_file is_symlink iterdir lstat mkdir read_bytes read_text resolve rglob rmdir touch"
    " unlink walk write_bytes write_text".split()
)
OWN_FILES = {
    "api/audit.py": "audit.log",
    "api/auth.py": "token and replica.key",
    "site/site_file.py": "site.toml, the admin's",
    "control/unknown.py": "runs/ and logs/, by their names; unknown-…",
    "store/backup.py": "the home's own files, and the backup",
    "store/ballast.py": "ballast.bin",
    "store/files.py": "names of buckets in buckets/gs, where no job can write; cloud credentials",
    "store/lead.py": "lead.lock",
    "store/log_file.py": "logs/",
    "store/logs.py": "logs/",
    "store/objects/records.py": "objects.db",
    "store/objects/uploads.py": "uploads/",
    "store/project_disk.py": "how much runs/ and logs/ hold, through no link",
    "store/restore.py": "the home's own files, and the backup",
    "store/room.py": "how much is free",
    "store/tokens.py": "tokens.json",
}
"""Modules that open files of the server's own, in the home, where no job can write: none of these is named by a user."""


def opened(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a module calls what takes a path to a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        is_of_os = (owner == "os" and name in _OF_OS) or (owner in ("os.path", "path") and name in _OF_OS_PATH)
        is_of_a_path = bool(owner) and name in _OF_PATHS and owner.rpartition(".")[2] not in ("files", "root")
        if called == "open" or owner == "shutil" or is_of_os or is_of_a_path:
            yield node.lineno, called


def modules() -> list[str]:
    return sorted(str(path.relative_to(SOURCE)) for room in ROOMS for path in (SOURCE / room).rglob("*.py"))


def test_no_other_module_opens_a_path() -> None:
    found = [
        f"{module}:{line} {called}"
        for module in modules()
        if module not in (*OPENERS, *OWN_FILES)
        for line, called in opened(ast.parse((SOURCE / module).read_text(encoding="utf-8")))
    ]
    assert not found, f"what a job can write to is opened by {OPENERS[0]} alone:\n" + "\n".join(found)


def test_the_table_holds_what_there_is() -> None:
    for module in OWN_FILES:
        assert list(opened(ast.parse((SOURCE / module).read_text(encoding="utf-8")))), (
            f"{module} opens nothing any more"
        )
