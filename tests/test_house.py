"""The house stands as docs/design.md draws it: rooms and layers, no circles, pure rooms, small files, a word on every name.

Read from the source with `ast`, so that an import below TYPE_CHECKING or inside a function counts like any other.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "stoker"

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"core", "setting_types", "beat_files"}),
    frozenset({"settings"}),
    frozenset({"hardware", "gpu", "runtime", "frameworks", "config", "registry", "clock"}),
    frozenset({"scheduling", "store", "engines", "kinds", "client", "checkpoint", "sampling"}),
    frozenset({"site"}),
    frozenset({"control"}),
    frozenset({"insight"}),
    frozenset({"alerts"}),
    frozenset({"api", "console", "simulate"}),
    frozenset({"parts"}),
    frozenset({"app"}),
    frozenset({"server"}),
    frozenset({"cli"}),
)
"""The rooms from the ground up. An import goes down, or stays in its room."""

BOTTOM = frozenset({"__init__"})  # `from stoker import __version__`: below everything
PURE_ROOMS = ("core", "scheduling", "hardware", "kinds")
REACHES_OUTSIDE = frozenset(
    "alembic anyio asyncio ctypes fastapi fcntl fsspec ftplib grpc http httpx multiprocessing os psutil pynvml requests "
    "selectors shutil signal smtplib socket socketserver sqlalchemy sqlite3 ssl starlette subprocess tempfile threading "
    "time urllib uvicorn".split()
)
"""Modules by which a program reaches files, processes, the network, a clock or a database."""

MOST_LINES = 400
OLDEST_SYNTAX = (3, 9)  # of the Python that a user's program may run on


@dataclass(frozen=True)
class Import:
    """One import in one file."""

    file: Path
    line: int
    module: str  # absolute, such as stoker.core.ids

    @property
    def top(self) -> str:
        """`stoker`, or somebody else's name."""
        return self.module.partition(".")[0]

    @property
    def room(self) -> str:
        """The room that it reaches."""
        return room_of(self.module.split(".")[1:])

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def room_of(parts: list[str]) -> str:
    """The room of a path below stoker; a name of the package itself, such as __version__, is at the bottom."""
    first = parts[0].removesuffix(".py") if parts else "__init__"
    return first if any(first in layer for layer in LAYERS) else "__init__"


def files(*below: str) -> list[Path]:
    """The Python files of a room, or of all."""
    return sorted(SOURCE.joinpath(*below).rglob("*.py"))


def imports_of(file: Path) -> Iterator[Import]:
    """Every import of a file, wherever it stands, relative ones made absolute."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(file, node.lineno, name.name)
        elif isinstance(node, ast.ImportFrom):
            base = list(file.relative_to(SOURCE.parent).parts[: -node.level]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            below = {f"{module}.{name.name}" for name in node.names}
            modules = below & MODULES.keys()  # `from stoker.cli import show` reaches the module show
            if modules != below:
                modules |= {module}
            yield from (Import(file, node.lineno, found) for found in sorted(modules))


def module_name(file: Path) -> str:
    """`stoker.core.ids` for its file."""
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def height(room: str) -> int:
    """How high a room lies."""
    return 0 if room in BOTTOM else 1 + next(n for n, layer in enumerate(LAYERS) if room in layer)


MODULES: Mapping[str, Path] = {module_name(file): file for file in files()}
ALL_IMPORTS = [found for file in files() for found in imports_of(file)]
OWN_IMPORTS = [found for found in ALL_IMPORTS if found.top == "stoker"]


def home_of(found: Import) -> str:
    """The room that an import stands in."""
    return room_of(list(found.file.relative_to(SOURCE).parts))


def may_import(room: str, other: str) -> bool:
    """Whether a room may import from another."""
    return other == room or height(other) < height(room)


def test_every_room_has_a_layer() -> None:
    known = {room for layer in LAYERS for room in layer} | BOTTOM
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found <= known, f"rooms that docs/design.md does not have: {sorted(found - known)}"


def test_imports_go_down() -> None:
    wrong = [str(found) for found in OWN_IMPORTS if not may_import(home_of(found), found.room)]
    assert not wrong, "an import goes up or sideways:\n" + "\n".join(wrong)


def test_the_rule_knows_up_from_down() -> None:
    assert may_import("control", "core") and may_import("api", "api") and not may_import("engines", "kinds")
    assert not may_import("core", "config") and not may_import("kinds", "engines")
    assert not may_import("scheduling", "store") and not may_import("api", "simulate")


def test_no_room_reaches_itself_through_another() -> None:
    below: dict[str, set[str]] = {}
    for found in OWN_IMPORTS:
        if found.room != home_of(found):
            below.setdefault(home_of(found), set()).add(found.room)
    assert not list(circles(below))


def test_no_module_imports_itself_through_another() -> None:
    """A package's own `__init__.py` holds a docstring and nothing to import, so it closes no circle."""
    below = {name: {f.module for f in imports_of(file)} & MODULES.keys() for name, file in MODULES.items()}
    assert not list(circles(below)), "modules import each other in a circle"


def test_packages_are_empty() -> None:
    full = [f for f in files() if f.name == "__init__.py" and len(ast.parse(f.read_text()).body) > 1]
    assert full == [SOURCE / "__init__.py"], "an __init__.py says what the room is; it imports nothing"


def circles(below: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """The circles of a graph, as paths that end where they begin."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[list[str]]:
        if name in path:
            yield [*path[path.index(name) :], name]
            return
        if name in done:
            return
        for other in sorted(below.get(name, ())):
            yield from walk(other, [*path, name])
        done.add(name)

    for name in sorted(below):
        yield from walk(name, [])


def test_the_circle_finder_finds_circles() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == [["a", "b", "c", "a"]]
    assert not list(circles({"a": {"b", "c"}, "b": {"c"}}))


def test_core_imports_only_core() -> None:
    wrong = [
        f for f in ALL_IMPORTS if home_of(f) == "core" and not (f.room == "core" if f.top == "stoker" else is_stdlib(f))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_runtime_stands_alone() -> None:
    """It is shipped to the user's Python, where nothing of ours is installed."""
    wrong = [
        f
        for f in ALL_IMPORTS
        if home_of(f) == "runtime" and not (f.room in ("runtime", "beat_files") if f.top == "stoker" else is_stdlib(f))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_frameworks_stand_alone() -> None:
    """They run in the user's program, and are shipped like the runtime; a framework is what the program has imported."""
    wrong = [
        f
        for f in ALL_IMPORTS
        if home_of(f) == "frameworks"
        and not (f.room in ("frameworks", "beat_files") if f.top == "stoker" else is_stdlib(f))
    ]
    assert not wrong or {f.top for f in wrong} == {"sitecustomize"}, "\n".join(map(str, wrong))


def test_runtime_is_old_syntax() -> None:
    wrong = []
    for file in [*files("runtime"), *files("frameworks"), SOURCE / "checkpoint.py", SOURCE / "beat_files.py"]:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=OLDEST_SYNTAX)
        except SyntaxError as error:
            wrong.append(f"{file.relative_to(ROOT)}:{error.lineno} {error.msg}")
            continue
        # `feature_version` lets these pass
        matches = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Match)]
        wrong += [f"{file.relative_to(ROOT)}:{line} a match statement" for line in matches]
    assert not wrong, f"newer than {OLDEST_SYNTAX}:\n" + "\n".join(wrong)


def is_stdlib(found: Import) -> bool:
    """Whether a module comes with Python."""
    return found.top in sys.stdlib_module_names


def test_only_app_and_up_tie_the_rooms() -> None:
    """Who imports app.py knows every room; that is the server alone, which `stoker up` runs."""
    for room, user in (("app", "server/run.py"), ("server", "cli/verbs/up.py")):
        users = {f.file.relative_to(SOURCE).as_posix() for f in OWN_IMPORTS if f.room == room and home_of(f) != room}
        assert users == {user}


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_pure_rooms_do_not_reach_outside(room: str) -> None:
    wrong = [f for f in ALL_IMPORTS if home_of(f) == room and f.top in REACHES_OUTSIDE]
    assert not wrong, "a pure room reaches outside:\n" + "\n".join(map(str, wrong))
    for file in files(room):
        calls = [
            n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        ]
        assert not {n.func.id for n in calls} & {"open", "print", "input"}, f"{file} opens or prints something"


def test_open_sets_do_not_import_their_members() -> None:
    """The base of an open set knows no member, and neither does the registry: it names them in strings."""
    bases = [
        "scheduling/base.py",
        "scheduling/decide.py",
        "engines/base.py",
        "kinds/base.py",
        "gpu/device.py",
        "registry.py",
    ]
    members = re.compile(
        r"stoker\.(scheduling\.(policies|placers)|engines\.(local|fake|ray|slurm)|kinds\.training|gpu\.drivers)\b"
    )
    wrong = [str(f) for base in bases for f in imports_of(SOURCE / base) if members.match(f.module)]
    assert not wrong, "\n".join(wrong)


def test_every_public_name_says_what_it_is() -> None:
    wrong = []
    for file in files():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if tree.body:
            found = undocumented(tree, file.stem)
            wrong += [f"{file.relative_to(ROOT)}:{line} {name}: {why}" for line, name, why in found]
    assert not wrong, "\n".join(wrong)


def undocumented(tree: ast.Module, name: str) -> Iterator[tuple[int, str, str]]:
    """The public names whose docstring is missing, or whose first line does not end with a period."""
    for node, full in [(tree, name), *public(tree.body, "")]:
        line = getattr(node, "lineno", 1)
        text = ast.get_docstring(node)  # type: ignore[arg-type]
        if text is None:
            yield line, full, "no docstring"
        elif not text.splitlines()[0].rstrip().endswith("."):
            yield line, full, f"its first line does not end with a period: {text.splitlines()[0]!r}"


def public(body: list[ast.stmt], prefix: str) -> Iterator[tuple[ast.AST, str]]:
    """The public classes and functions of a module, with the public methods of the classes.

    A method that is only declared (`def read_job(self, job: str) -> Job: ...`) is a row of a table and needs no word.
    """
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not (prefix and ast.unparse(node.body) == "..."):  # type: ignore[arg-type]
                yield node, f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{node.name}.")


def test_files_are_short() -> None:
    long = {f.relative_to(ROOT).as_posix(): n for f in files() if (n := len(f.read_text().splitlines())) > MOST_LINES}
    assert not long, f"over {MOST_LINES} lines; a file holds one noun: {long}"


def test_no_file_is_called_after_nothing() -> None:
    vague = {"utils.py", "util.py", "helpers.py", "helper.py", "misc.py", "common.py", "manager.py"}
    wrong = [f.relative_to(ROOT).as_posix() for f in (*files(), *(ROOT / "tests").rglob("*.py")) if f.name in vague]
    assert not wrong, f"name the noun, then the file: {wrong}"
