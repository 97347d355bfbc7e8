"""Every case of the contract, put to servers of our own over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .__main__ import OWN_CASES
from .layout import Case, read_cases
from .not_yet import NOT_YET
from .run import Runner, Verdict
from .servers import own_servers
from .target import Target

pytestmark = pytest.mark.live
FILE = read_cases(OWN_CASES)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """A runner with servers of its own."""
    with own_servers() as urls:
        normal, holding = (Target(url) for url in urls)
        yield Runner(normal, holding, headers=FILE.headers, not_yet=NOT_YET)
        normal.close()
        holding.close()


@pytest.mark.parametrize("case", FILE.cases, ids=lambda case: case.id)
def test_case(runner: Runner, case: Case) -> None:
    result = runner.run(case)
    assert result.verdict is not Verdict.FAIL, f"{case.id} {case.name}\n" + "\n".join(result.reasons)


def test_the_list_of_what_is_not_served_names_cases() -> None:
    assert NOT_YET.keys() <= {case.id for case in FILE.cases}
