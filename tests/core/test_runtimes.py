"""What a runtime version becomes on a site."""

from __future__ import annotations

import pytest

from stoker.core.runtimes import RUNTIMES, Choice, Surroundings, choose

HERE = Surroundings({"2.3": "/opt/tf-2.3/bin/python"}, "3.11", "2.21.0", lambda: frozenset({"3.7", "3.10", "3.11"}))


@pytest.mark.parametrize(
    ("runtime", "python", "chosen"),
    [
        ("", "", ""),
        ("2.3", "3.7", ""),  # as configured
        ("2.21", "", ""),  # Stoker's own has it
        ("2.21", "3.11", ""),
        ("1.15", "3.7", "3.7"),
        ("1.15", "", "3.7"),
        ("2.11", "", "3.10"),  # the newest that it has wheels for
        ("2.11", "3.7", "3.7"),
        ("2.11", "2.7", "3.10"),
        ("2.13", "", "3.11"),
    ],
)
def test_it_is_made_where_a_python_is_here(runtime: str, python: str, chosen: str) -> None:
    found = choose(runtime, python, HERE)
    assert (found.environment.python, found.problem) == (chosen, "")
    if chosen:
        assert found.environment.requirements[0] == f"tensorflow=={runtime}.*"


def test_another_python_than_was_asked_for_is_told() -> None:
    found = choose("2.11", "3.8", HERE)
    assert found.environment.python == "3.10" and found.note.startswith("Python 3.8 is not here")
    assert choose("2.11", "3.7", HERE).note == choose("2.11", "", HERE).note == ""


def test_what_cannot_be_made_is_said_with_what_would_do() -> None:
    bare = Surroundings(own_python="3.13", installed=lambda: frozenset({"3.13", "3.9"}))
    found = choose("1.15", "", bare)
    assert found.problem == (
        "runtime 1.15 is TensorFlow 1.15, which exists for Python 3.7; here is Python 3.9, 3.13, with no TensorFlow"
    )
    assert "uv python install 3.7" in found.fix and "runtimes 1.15=" in found.fix and "image" in found.fix
    unknown = choose("3.4", "", bare)
    assert unknown == Choice(problem=unknown.problem, fix=unknown.fix) and "1.15 to 2.20" in unknown.problem


def test_nobody_looks_for_pythons_unless_it_is_needed() -> None:
    def never() -> frozenset[str]:
        raise AssertionError

    here = Surroundings({"2.3": "/p"}, "3.11", "2.21.0", never)
    assert choose("2.3", "", here) == choose("2.21", "", here) == choose("", "3.7", here) == Choice()


def test_the_table_is_in_order() -> None:
    numbers = [tuple(map(int, version.split("."))) for version in RUNTIMES]
    assert numbers == sorted(numbers) and all(runtime.pythons for runtime in RUNTIMES.values())
