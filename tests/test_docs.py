"""The documentation is true where a machine can tell: drawn pages are current, every name is documented, links lead somewhere."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from docs import draw
from stoker.api.errors import STATUS
from stoker.cli.main import VERBS, command_of, stoker
from stoker.runtime.wiring import wiring
from stoker.settings import SETTINGS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "stoker"
DOCS = ROOT / "docs"
NOT_OURS = {"build", "dist", "node_modules", "__pycache__"}
ENDINGS = ("py", "md", "yaml", "toml", "csv", "sh", "txt", "ini")
A_PATH = re.compile(rf"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*(?:/|/[A-Za-z0-9_.-]+\.(?:{'|'.join(ENDINGS)}))")
A_VARIABLE = re.compile(r"(?:STOKER|CLOUD_ML|AIP|JAX|TF|CLUSTER|TORCH|NCCL|GLOO)_[A-Z_]*[A-Z]")


def pages() -> list[Path]:
    """Every page of markdown that is ours."""
    found = [*ROOT.glob("*.md")]
    for folder in ("docs", "examples", "src", "benchmarks", "monitoring", "tests"):
        found += (ROOT / folder).rglob("*.md")
    return sorted(page for page in found if not NOT_OURS & set(page.parts))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def documented() -> str:
    """All that docs/ says."""
    return "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))


def strings(file: Path) -> Iterator[str]:
    """Every text in a source file that is not a docstring."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_drawn_pages_are_current() -> None:
    assert not draw.stale(), "run `make docs`"


def test_check_says_so() -> None:
    assert draw.main(["--check"]) == 0


def test_the_drawn_pages_name_no_place_of_this_machine() -> None:
    for page in draw.PAGES:
        assert str(Path.home()) + "/" not in (DOCS / page).read_text()


def test_every_setting_is_documented() -> None:
    text = (DOCS / "configuration.md").read_text()
    names = [setting.name for setting in SETTINGS]
    assert not [n for n in names if f"| `{n}` |" not in text or f"`STOKER_{n.upper()}`" not in text]


def test_every_verb_is_documented() -> None:
    text = (DOCS / "commands.md").read_text()
    shown = [" ".join(words) for verb in VERBS for words, _ in draw.tree(command_of(verb), (verb,))]
    assert not [words for words in shown if not re.search(rf"^#+ stoker {words}$", text, re.MULTILINE)]


def test_every_error_code_is_documented() -> None:
    text = (DOCS / "errors.md").read_text()
    codes = {kind.code for kind in draw.error_classes()}
    assert codes == set(STATUS), "a code without an HTTP status, or a status without an error"
    assert not [code for code in codes if f"| `{code}` |" not in text]


def test_every_reason_is_documented() -> None:
    found = set()
    for file in source_files():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason":
                found |= {k.value.value for k in node.keywords if k.arg == "code" and isinstance(k.value, ast.Constant)}
    assert found == set(draw.REASONS)
    assert {"NO_ROOM", "BEHIND", "BACKOFF", "HELD", "NO_SUCH_NODES"} <= found


def test_every_variable_is_documented() -> None:
    """Those that a program finds, and those that Stoker reads."""
    known = {variable.strip("`") for variable in re.findall(r"`[A-Z][A-Z_]+`", documented())}
    in_code = {text for file in source_files() for text in strings(file) if A_VARIABLE.fullmatch(text)}
    asked = {"NO_COLOR", "FORCE_COLOR", "XDG_DATA_HOME", "CUDA_VISIBLE_DEVICES", "GOOGLE_APPLICATION_CREDENTIALS"}
    assert not (variables_of_a_replica() | in_code | asked) - known


def variables_of_a_replica() -> set[str]:
    """What runtime/wiring.py sets, in a container job with every role."""
    cluster = {role: [["h:1", "h:2", "h:3"]] for role in ("chief", "worker", "ps", "evaluator")}
    request = {
        "role": "chief",
        "index": 0,
        "primary_name": "chief",
        "told": "{}",
        "cloud_id": "p/j.1",
        "convention": "AI_PLATFORM",
        "is_container": True,
        "devices": ["0"],
        "visible_devices": "0",
        "loopback_interface": "lo",
    }
    return set(wiring(request, cluster))


def test_the_variables_table_has_nothing_that_is_not_set() -> None:
    """Nothing in the table of docs/running.md is an invention."""
    text = (DOCS / "running.md").read_text()
    table = text[text.index("## Environment variables") : text.index("### TF_CONFIG")]
    named = {
        v for row in table.splitlines() if row.startswith("| `") for v in re.findall(r"`([A-Z_]+)`", row.split("|")[1])
    }
    in_code = {word for file in source_files() for text in strings(file) for word in re.findall(r"[A-Z][A-Z_]+", text)}
    assert named and not named - in_code


def test_links_lead_somewhere() -> None:
    broken = []
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
                broken.append(f"{name(page)}: {target}")
    assert not broken, "\n".join(broken)


def test_pages_of_the_site_lead_to_pages_of_the_site() -> None:
    """As `make site` would say after half an hour of other tests."""
    of_the_site = {page for pattern in site_patterns() for page in ROOT.glob(pattern) if page.suffix == ".md"}
    outside = [
        f"{name(page)}: {target}"
        for page in sorted(of_the_site)
        for target in re.findall(r"\]\(([^)\s:#]+\.md)(?:#[^)\s]*)?\)", prose(page))
        if (page.parent / target).resolve() not in of_the_site
    ]
    assert not outside, "\n".join(outside)


def site_patterns() -> list[str]:
    """What `docs/conf.py` includes, read without Sphinx."""
    for node in ast.parse((DOCS / "conf.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "include_patterns":
            patterns: list[str] = ast.literal_eval(node.value)
            return [pattern.replace("**", "**/*") if pattern.endswith("**") else pattern for pattern in patterns]
    raise AssertionError("docs/conf.py names no include_patterns")


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page are reached."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_files_that_are_named_are_there() -> None:
    """`core/states.py` is below src/stoker, `examples/…` and `tests/…` below the root, others beside the page."""
    missing = [f"{name(page)}: {word}" for page in pages() for word in missing_files(page)]
    assert not missing, "\n".join(missing)


def missing_files(page: Path) -> list[str]:
    """The files that a page names and that are not there."""
    bases = (SOURCE, ROOT, page.parent)
    named = {word for word in re.findall(r"`([^`\s]+)`", prose(page)) if A_PATH.fullmatch(word)}
    made = {word for word in named if re.match(r"(buckets|cache|checkpoints|model|logs|runs|work|build|dist)/", word)}
    made |= {
        word for word in named if re.search(r"(^|/)[A-Z_]{3,}(/|\.py|$)", word)
    }  # stands for a name: cli/verbs/VERB.py
    return [w for w in named - made if not any((base / w).exists() for base in bases) and not is_below_examples(w)]


def is_below_examples(word: str) -> bool:
    """`trainer/task.py` is one of several."""
    return any(path.as_posix().endswith(f"/{word}") for path in (ROOT / "examples").rglob("*.*"))


def shown_commands(page: Path) -> Iterator[str]:
    """The commands of ours in a page's blocks of shell and of screens, whole."""
    for block in re.findall(
        r"^ *```(?:sh|console)?\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            shown = re.match(r"\s*(?:\$ )?(?:\S+=\S+ )*stoker (.*)", line)
            if shown and "…" not in shown[1] and "[OPTIONS]" not in shown[1]:
                yield from ("stoker " + part.strip() for part in [re.split(r"\s(?:[|&>;#]|2>)", shown[1])[0]])


def test_commands_that_are_shown_are_known() -> None:
    """Every command, option and number of words."""
    wrong = []
    for page, shown in ((one, shown) for one in pages() for shown in shown_commands(one)):
        words, command = re.sub(r"\$\([^)]*\)|\"\$\(.*", "X", shown), stoker
        try:
            found, rest = click.Context(command), shlex.split(words)[1:]
            while isinstance(command, click.Group) and rest:
                _, below, rest = command.resolve_command(found, rest)
                assert below is not None
                command, found = below, click.Context(below, parent=found, info_name=below.name)
            command.make_parser(found).parse_args(list(rest))
        except (click.UsageError, ValueError, AssertionError) as error:
            wrong.append(f"{name(page)}: {shown}: {getattr(error, 'message', error)}")
    assert not wrong, "\n".join(wrong)


def test_every_page_of_docs_is_reached() -> None:
    """From README.md, following links."""
    seen, ask = set(), [ROOT / "README.md"]
    while ask:
        page = ask.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        links = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
        for found in ((page.parent / link).resolve() for link in links if link and ":" not in link):
            ask += [found] if found.suffix == ".md" else sorted(found.glob("*.md")) if found.is_dir() else []
    assert not [name(page) for page in DOCS.rglob("*.md") if page not in seen]


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in sorted((DOCS / "decisions").glob("0*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
    for page in (DOCS / "decisions").glob("0*.md"):
        text = page.read_text()
        assert all(f"**{part}.**" in text for part in ("Question", "Choice", "Cost")), name(page)


def test_contracts_that_are_named_are_there() -> None:
    named = set(re.findall(r"\b[A-Z][a-z]+Contract\b", documented()))
    defined = {
        w
        for f in (ROOT / "tests" / "contract").glob("*.py")
        for w in re.findall(r"^class (\w+Contract)\b", f.read_text(), re.M)
    }
    assert named <= defined
