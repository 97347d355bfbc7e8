"""What is replaced in frameworks: all names of a change, or none, in whatever version; and nothing beside the table."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stoker.frameworks.messages import Refused
from stoker.frameworks.replaced import AVERAGES, CHANGES, Change, is_public, missing, replace, replaced_meanwhile

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ROOT / "src" / "stoker" / "frameworks"

KERAS: Mapping[str, str] = {
    "keras/__init__.py": "__version__ = '{version}'\nclass Variable: pass\nclass Model: pass\n",
    "keras/src/losses/loss.py": "def scale_loss_for_distribution(v): return v / 2\ndef reduce_values(v, w=None, r=''): return v\n"
    "def unscale_loss_for_distribution(v): return v * 2\n",
    "keras/src/optimizers/base_optimizer.py": "class BaseOptimizer:\n    def {clip}(self, g): return g\n",
    "keras/src/optimizers/loss_scale_optimizer.py": "class LossScaleOptimizer:\n    def apply(self, g, v=None): pass\n",
    "keras/src/backend/tensorflow/optimizer.py": "class TFOptimizer:\n"
    "    def _all_reduce_sum_gradients(self, pairs): return pairs\n",
}
"""A Keras of which only that is there which averages are made of."""

PROGRAM = """
import keras, keras.src.losses.loss as losses
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer
from stoker.frameworks.keras.replica_average import Average
apply = LossScaleOptimizer.apply
average = Average(None)
average.put_in_place(keras)
print(losses.scale_loss_for_distribution(4.0), LossScaleOptimizer.apply is apply, average._has_own_statistics)
"""


def averaged_in(folder: Path, version: str, clip: str) -> tuple[str, str]:
    """What a Keras of some version computes after it was told to average, and what is said."""
    for name, text in KERAS.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{version}", version).replace("{clip}", clip))
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": f"{folder}:{ROOT / 'src'}"}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_keras_that_was_tried_is_replaced_without_a_word(tmp_path: Path) -> None:
    assert averaged_in(tmp_path, "3.15.2", "_clip_gradients") == ("4.0 False True", "")


def test_a_keras_that_was_never_tried_and_has_all_names_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    shown, said = averaged_in(tmp_path, "3.99.0", "_clip_gradients")
    assert shown == "4.0 False True"
    assert (
        said == "stoker: keras 3.99.0 was never tried here (what was: keras 3.15): it has every name that is replaced\n"
    )


def test_a_keras_that_lacks_one_name_is_left_whole(tmp_path: Path) -> None:
    """Neither its losses nor BatchNorm's statistics are touched: half of it would be neither Keras' way nor ours."""
    shown, said = averaged_in(tmp_path, "3.99.0", "clip_by_another_name")
    assert shown == "2.0 True False"
    assert said == (
        "stoker: keras 3.99.0 has no keras.src.optimizers.base_optimizer.BaseOptimizer._clip_gradients: Keras averages in its own"
        " way, in which a last batch that divides unevenly counts unevenly (tried: keras 3.15)\n"
    )


class Holder:
    """Something of a framework's."""

    def one(self) -> int:
        return 1

    def two(self) -> int:
        return 2


HERE = f"{__name__}:Holder"


def a_change(*names: str, is_needed: bool = False) -> Change:
    return Change(
        "python", "this test", "it is tried", "leave it", names, extra=(f"{HERE}.three",), is_needed=is_needed
    )


@pytest.fixture(autouse=True)
def holder() -> Iterator[None]:
    """As it was, afterwards."""
    before = Holder.one, Holder.two
    yield
    Holder.one, Holder.two = before  # type: ignore[method-assign]


def test_what_is_replaced_is_made_of_what_was_there() -> None:
    change = a_change(f"{HERE}.one")
    assert replace(change, {f"{HERE}.one": lambda one: lambda self: one(self) + 10})
    assert (Holder().one(), Holder().two()) == (11, 2)


def test_what_some_versions_lack_is_passed_over() -> None:
    made = {f"{HERE}.{name}": lambda _: lambda self: 0 for name in ("one", "three")}
    assert replace(a_change(f"{HERE}.one"), made) and Holder().one() == 0


def test_where_one_is_missing_none_is_touched() -> None:
    made = {f"{HERE}.{name}": lambda _: lambda self: 0 for name in ("one", "four")}
    assert not replace(a_change(f"{HERE}.one", f"{HERE}.four"), made)
    with pytest.raises(Refused, match=r"four, by which it is tried; install python, or leave it"):
        replace(a_change(f"{HERE}.one", f"{HERE}.four", is_needed=True), made)
    assert Holder().one() == 1


def test_an_owner_replaces_what_its_row_says() -> None:
    for made in ({}, {f"{HERE}.one": lambda one: one, f"{HERE}.two": lambda two: two}):
        with pytest.raises(KeyError, match="its row of the table"):
            replace(a_change(f"{HERE}.one"), made)


def test_for_a_while_is_until_it_is_put_back() -> None:
    with replaced_meanwhile(a_change(f"{HERE}.one"), {f"{HERE}.one": lambda _: lambda self: 0}) as put_back:
        assert Holder().one() == 0
        put_back()
        assert Holder().one() == 1
    with pytest.raises(ZeroDivisionError):
        with replaced_meanwhile(a_change(f"{HERE}.one"), {f"{HERE}.one": lambda _: lambda self: 0}):
            Holder().one() / Holder().one()
    assert Holder().one() == 1


def test_a_name_is_private_that_its_framework_marks_so() -> None:
    assert is_public("torch:Tensor.backward") and is_public("keras:Variable.__int__")
    assert not is_public("keras.src.losses.loss:reduce_values")
    assert not is_public("torch.utils.data.dataloader:_BaseDataLoaderIter.__next__")


def test_every_row_names_its_owner() -> None:
    for change in CHANGES:
        for owner in change.owner.split(", "):
            text = (FRAMEWORKS / owner).read_text()
            constants = {name for name, value in vars(sys.modules[Change.__module__]).items() if _holds(value, change)}
            assert any(name in text for name in constants), f"{owner} does not replace {change.names}"


def _holds(value: object, change: Change) -> bool:
    return value is change or (isinstance(value, dict) and any(one is change for one in value.values()))


@pytest.mark.live
def test_the_versions_here_have_every_name() -> None:
    """In a process of its own, as every framework is imported."""
    script = "from stoker.frameworks.replaced import CHANGES, is_tried, missing\n"
    script += "print([name for c in CHANGES for name in missing(c)], [c.framework for c in CHANGES if not is_tried(c.framework)])"
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT / "src"), "HOME": "/tmp"}
    done = subprocess.run([sys.executable, "-c", script], env=quiet, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[] []", done.stderr


# Nothing is replaced beside the table.

ROOTS = frozenset({"keras", "tensorflow", "torch", "jax", "os", "io", "builtins", "shutil", "sys"})


def foreign(node: ast.expr, known: set[str]) -> bool:
    """Whether an expression is a framework, or something of one: by its name, or by what it was assigned from."""
    match node:
        case ast.Name(id=name):
            return name in ROOTS or name in known
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name.lstrip("_") in ROOTS
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return foreign(value, known)
        case ast.Call(func=ast.Name(id="import_module" | "getattr"), args=[first, *_]):
            return isinstance(node.func, ast.Name) and (node.func.id == "import_module" or foreign(first, known))
    return False


def replaced_in(file: Path) -> Iterator[str]:
    """Where attributes of frameworks are set."""
    tree = ast.parse(file.read_text())
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef):
            continue
        known: set[str] = set()
        nodes = sorted((n for n in ast.walk(scope) if hasattr(n, "lineno")), key=lambda n: n.lineno)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and foreign(node.value, known):
                        known.add(target.id)
                    if isinstance(target, ast.Attribute) and foreign(target.value, known):
                        yield f"{file.name}:{node.lineno} sets {target.attr}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
                if foreign(node.args[0], known):
                    yield f"{file.name}:{node.lineno} sets an attribute"


def test_nothing_is_replaced_beside_the_table() -> None:
    assert {file.name for file in FRAMEWORKS.rglob("*.py")} >= {"gradient_average.py", "replaced.py"}
    wrong = [found for file in FRAMEWORKS.rglob("*.py") for found in replaced_in(file) if file.name != "replaced.py"]
    assert not wrong, "\n".join(wrong)


def test_what_looks_for_it_finds_it(tmp_path: Path) -> None:
    for number, line in enumerate(
        (
            "def f(keras):\n    keras.Model.fit = 1",
            "def f(self):\n    self._torch.Tensor.backward = 1",
            "def f():\n    hooks = import_module('torch.optim')\n    kind = hooks.Optimizer\n    kind.step = 1",
            "def f(torch):\n    setattr(torch.nn, 'x', 1)",
        )
    ):
        (tmp_path / f"{number}.py").write_text(line)
        assert list(replaced_in(tmp_path / f"{number}.py")), line


def test_a_missing_module_is_a_missing_name() -> None:
    assert missing(a_change("there.is.no.such:Thing.name", f"{HERE}.one.__name__", f"{HERE}.one")) == [
        "there.is.no.such:Thing.name",
        f"{HERE}.one.__name__",  # no function
    ]
    assert AVERAGES["keras"] in CHANGES
