"""`stoker choose`."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli


def test_a_ranking_with_why_the_others_lose(served: Cli) -> None:
    ran = served("choose", "--parameters", "350M", "--batch", "64", "--precision", "bf16")
    assert ran.code == 0 and "memory: about 21.6 GB" in ran.err and "assumed: a transformer of 256 positions" in ran.err
    lines = ran.out.splitlines()
    assert lines[0].split()[:4] == ["#", "WHAT", "WHERE", "MARKET"]
    assert lines[1].startswith("1 ") and any(line.startswith("out") and "needed" in line for line in lines)
    assert "more: --all" in ran.err
    everything = served("choose", "--parameters", "350M", "--batch", "64", "--precision", "bf16", "--all")
    assert len(everything.out.splitlines()) > len(lines) and "--all" not in everything.err


def test_json(served: Cli) -> None:
    found = json.loads(served("choose", "--memory", "10GB", "--budget", "3/h", "--task", "production", "--json").out)
    assert (found["task"], found["budget_usd_per_hour"]) == ("production", 3)
    assert found["choices"][0]["place"] == "site" and found["choices"][0]["rank"] == 1


def test_where_nothing_suffices_it_says_what_would(served: Cli) -> None:
    ran = served("choose", "--parameters", "70B", "--batch", "64", "--precision", "bf16", "--sequence", "2048")
    assert ran.code == 0 and "nothing suffices" in ran.err and "FSDP" in ran.err


def test_a_job_that_runs_on_processors(served: Cli) -> None:
    assert served("run", "--name", "choose_me", "--", "true").code == 0
    ran = served("choose", "--job", "choose_me")
    assert "choose_me held 0 GPUs" in ran.err and "was not measured" in ran.err and "give --parameters" in ran.err


def test_mistakes(served: Cli) -> None:
    for words, said in (
        (("--parameters", "0"), "1 parameter at least"),
        (("--memory", "lots"), "20GB, 500MB or 16GiB"),
        ((), "or a job to begin with"),
        (("--job", "nobody"), "no job local/nobody"),
        (("--parameters", "1M", "--batch", "0"), "--batch"),
    ):
        ran = served("choose", *words)
        assert ran.code and said in ran.err and "Traceback" not in ran.err and not ran.out
