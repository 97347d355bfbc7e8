"""`stoker goodput`, as it is typed."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli


def test_of_all_jobs_when_none_has_held_anything(served: Cli) -> None:
    ran = served("goodput", "--last", "2h", "--project", "nobody-s")
    assert ran.code == 0 and "no job has held machines in the last 2h" in ran.err
    assert json.loads(served("goodput", "--project", "nobody-s", "--json").out)["rows"] == []


def test_what_cannot_be_asked(served: Cli) -> None:
    ran = served("goodput", "j", "--last", "1d")
    assert ran.code == 2 and "leave JOB out" in ran.err
    assert served("goodput", "--by", "moon").code == 2
    ran = served("goodput", "none")
    assert ran.code != 0 and "no job local/none" in ran.err
    assert served("goodput", "--last", "soon").code != 0
