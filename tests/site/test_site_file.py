"""The site file: what it makes of the rules, and every mistake with its line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config import Config, read_config
from stoker.core.errors import BadSpec, StokerError
from stoker.core.site import Backfill, Preemption, Queue, Quota, Site, Victims
from stoker.scheduling.rules import rules_of
from stoker.site.site_file import FILE_NAME, parse_site, read_file, read_site, remarks

WHOLE = """
policy = "las"
placer = "pack"
backfill = "skip"
head = "4h"
share_by = "user"
half_life = "7d"
defrag = true
[policy_options]
levels = 4
[preemption]
victims = "any"
quantum = 90
budget = 2
cost = "1.5m"
[queues.research]
weight = 2
cohort = "lab"
policy = "fifo"
[queues.research.quota]
T4 = 16
"V100@us-central1" = { nominal = 8, borrowing = 4, lending = 2 }
gpu = 64
CPU = 0.5
NVIDIA_GEFORCE_RTX_9090 = 1
[queues.teaching]
cohort = "lab"
"""
SITE = Site(
    policy="las",
    policy_options={"levels": 4.0},
    placer="pack",
    backfill=Backfill.SKIP,
    head_seconds=14400.0,
    share_by="user",
    half_life_seconds=604800.0,
    defrag=True,
    preemption=Preemption(victims=Victims.ANY, quantum_seconds=90.0, budget=2, cost_seconds=90.0),
    queues={
        "default": Queue(name="default"),
        "research": Queue(
            name="research",
            weight=2.0,
            cohort="lab",
            policy="fifo",
            quotas={
                "NVIDIA_TESLA_T4": Quota(nominal_milli=16_000),
                "NVIDIA_TESLA_V100@us-central1": Quota(nominal_milli=8000, borrowing_milli=4000, lending_milli=2000),
                "GPU": Quota(nominal_milli=64_000),
                "CPU": Quota(nominal_milli=500),
                "NVIDIA_GEFORCE_RTX_9090": Quota(nominal_milli=1000),
            },
        ),
        "teaching": Queue(name="teaching", cohort="lab"),
    },
)


def config_of(home: Path, **flags: Any) -> Config:
    return read_config({}, flags={"home": str(home), **flags})


def mistakes(text: str) -> dict[str, str]:
    """Where → what, of everything that is wrong with it."""
    with pytest.raises(BadSpec) as refused:
        parse_site(text)
    assert "docs/site.md" in refused.value.fix
    return {v.field: v.description for v in refused.value.violations}


def test_every_key() -> None:
    assert parse_site(WHOLE) == SITE
    assert parse_site(WHOLE.replace("\n", "\r\n")) == SITE


def test_an_empty_file_is_the_usual_site() -> None:
    assert parse_site("") == Site()


def test_the_documents_examples_are_in_order() -> None:
    text = (Path(__file__).parents[2] / "docs" / "site.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        rules_of(parse_site(example))


WRONG: dict[str, tuple[str, str, str]] = {
    "no TOML": ("a = 1\nb = = 2\n", "site.toml:2", "is no TOML"),
    "cut off": ("a = [\n", "site.toml:1", "is no TOML"),
    "too deep": ("a = " + "[" * 5000, "site.toml", "is no TOML"),
    "a huge number": ("head = " + "9" * 5000, "site.toml", "is no TOML"),
    "an unknown key": ('\npalcer = "pack"', "site.toml:2 palcer", "did you mean placer?"),
    "an unknown key of a queue": (
        "[queues.a]\nweigth = 1",
        "site.toml:2 queues.a.weigth",
        "did you mean weight?",
    ),
    "an unknown key of a quota": (
        "[queues.a.quota]\nCPU = { nominal = 1, lent = 1 }",
        "site.toml:2 queues.a.quota.CPU.lent",
        "there are nominal, borrowing, lending",
    ),
    "a policy": ('policy = "lass"', "site.toml:1 policy", "did you mean las?"),
    "a queue's policy": (
        '[queues.a]\npolicy = "x"',
        "site.toml:2 queues.a.policy",
        "there are fifo, ",
    ),
    "a placer": ("placer = 1", "site.toml:1 placer", "is not text"),
    "a backfill": ('backfill = "esay"', "site.toml:1 backfill", "did you mean easy?"),
    "a victim": (
        '[preemption]\nvictims = "all"',
        "site.toml:2 preemption.victims",
        "nobody, preemptible, resumable, any",
    ),
    "a sharer": ('share_by = "users"', "site.toml:1 share_by", "did you mean user?"),
    "an option": ("[policy_options]\nlevles = 1", "site.toml:2 policy_options.levles", "points_per_hour"),
    "an option that is not a number": (
        "[policy_options]\npoints_per_hour = nan",
        "site.toml:2 policy_options.points_per_hour",
        "is not a number",
    ),
    "an option that does not suit": (
        'policy = "las"\n[policy_options]\nfactor = 1e6\nlevels = 1000',
        "site.toml:2 policy_options",
        "does not suit the policy las",
    ),
    "a duration": ('head = "4 hours"', "site.toml:1 head", '"90s", "15m", "4h", "2d"'),
    "a negative duration": ("head = -1", "site.toml:1 head", "0 or more"),
    "an endless duration": ("half_life = inf", "site.toml:1 half_life", "is not a duration"),
    "a duration beyond all": ('head = "999999999d"', "site.toml:1 head", "longest"),
    "a date": ("head = 2020-01-01", "site.toml:1 head", "is not a duration"),
    "a switch": ("defrag = 1", "site.toml:1 defrag", "neither true nor false"),
    "a part of a budget": ("[preemption]\nbudget = 2.5", "site.toml:2 preemption.budget", "the nearest is 2"),
    "no weight": ("[queues.a]\nweight = 0", "site.toml:2 queues.a.weight", "above 0"),
    "a negative weight": ("[queues.a]\nweight = -1", "site.toml:2 queues.a.weight", "is not a number from 0"),
    "a weight that is none": ("[queues.a]\nweight = nan", "site.toml:2 queues.a.weight", "is not a number from 0"),
    "a weight beyond all": (
        "[queues.a]\nweight = " + "9" * 400,
        "site.toml:2 queues.a.weight",
        "is not a number from 0",
    ),
    "a queue that is not a table": ("[queues]\na = 1", "site.toml:2 queues.a", "is not a table"),
    "a queue's name": ('[queues."A b"]', "site.toml:1 queues.'A b'", "lower-case"),
    "a cohort of one": ('[queues.a]\ncohort = "lab"', "site.toml:2 queues.a.cohort", "nobody else"),
    "two cohorts that are meant as one": (
        '[queues.a]\ncohort = "lab"\n[queues.b]\ncohort = "labs"',
        "site.toml:2 queues.a.cohort",
        "did you mean labs?",
    ),
    "a region": (
        '[queues.a.quota]\n"T4@us-centrall1" = 1',
        "site.toml:2 queues.a.quota.'T4@us-centrall1'",
        "us-central1",
    ),
    "an accelerator": ("[queues.a.quota]\nT44 = 1", "site.toml:2 queues.a.quota.T44", "use T4"),
    "an accelerator far from any": (
        "[queues.a.quota]\nthing = 1",
        "site.toml:2 queues.a.quota.thing",
        "stoker accelerators",
    ),
    "one resource twice": (
        "[queues.a.quota]\nT4 = 1\nnvidia-tesla-t4 = 2",
        "site.toml:3 queues.a.quota.nvidia-tesla-t4",
        "which line 2 has already",
    ),
    "an amount": ("[queues.a.quota]\nT4 = -1", "site.toml:2 queues.a.quota.T4", "is not a number from 0"),
    "a part of a thousandth": ("[queues.a.quota]\nT4 = 0.0005", "site.toml:2 queues.a.quota.T4", "the nearest is 0"),
    "a quota without its own": (
        '[queues.a]\ncohort="c"\n[queues.b]\ncohort="c"\n[queues.a.quota]\nT4 = {}',
        "site.toml:6 queues.a.quota.T4",
        "needs `nominal`",
    ),
    "lending more than its own": (
        '[queues.a]\ncohort="c"\n[queues.b]\ncohort="c"\n[queues.a.quota]\nT4 = { nominal = 2, lending = 3 }',
        "site.toml:6 queues.a.quota.T4.lending",
        "lends 3 of 2",
    ),
    "borrowing from nobody": (
        "[queues.a.quota.T4]\nnominal = 2\nborrowing = 3",
        "site.toml:3 queues.a.quota.T4.borrowing",
        "without a cohort",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_line(case: str) -> None:
    text, where, words = WRONG[case]
    found = mistakes(text)
    assert where in found and words in found[where], found


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    text = 'half_life = -1\n[queues.a]\nweight = 0\ncohort = "x"\n[preemption]\nbudget = -1\nx = 1\n'
    assert [where.partition(" ")[0] for where in mistakes(text)] == [f"site.toml:{n}" for n in (1, 3, 4, 6, 7)]


def test_options_of_a_policy_that_there_is_not_are_not_told_twice() -> None:
    assert list(mistakes('policy = "x"\n[policy_options]\ny = 1\n')) == ["site.toml:1 policy"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = (
    "policy placer backfill head share_by half_life defrag policy_options preemption queues victims quantum budget cost"
)
KEYS += " weight cohort quota T4 CPU GPU nominal borrowing lending a default x@y levels"


def in_toml(value: Any) -> str:
    """A value as TOML writes it, or as it does not."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_toml(str(key))} = {in_toml(part)}" for key, part in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool | float) else repr(value) if value is not None else "none"


LINES = st.one_of(
    st.builds(lambda key, value: f"{key} = {in_toml(value)}", st.sampled_from(KEYS.split()), JUNK),
    st.builds(lambda keys: f"[{'.'.join(keys)}]", st.lists(st.sampled_from(KEYS.split()), min_size=1, max_size=4)),
    st.sampled_from(WHOLE.splitlines()),
    st.text(max_size=20),
)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(LINES, max_size=12))
def test_no_file_is_our_mistake(lines: list[str]) -> None:
    try:
        rules_of(parse_site("\n".join(lines)))
    except StokerError as error:
        assert "site.toml" in str(error)


@settings(max_examples=200, deadline=None)
@given(
    whole=st.recursive(
        JUNK, lambda inner: st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4), max_leaves=12
    )
)
def test_no_table_is_our_mistake(whole: Any) -> None:
    text = "\n".join(f"{key} = {in_toml(part)}" for key, part in whole.items()) if isinstance(whole, dict) else ""
    try:
        tomllib.loads(text)
        parse_site(text)
    except (ValueError, BadSpec):
        pass


def test_the_homes_file_is_read_where_none_is_named(tmp_path: Path) -> None:
    assert read_site(config_of(tmp_path)) == Site()
    (tmp_path / FILE_NAME).write_text('placer = "spread"')
    assert read_site(config_of(tmp_path)).placer == "spread"
    (tmp_path / "other.toml").write_text('placer = "pack"')
    assert read_site(config_of(tmp_path, site="other.toml")).placer == "pack"
    assert read_site(config_of(tmp_path / "away", site=str(tmp_path / "other.toml"))).placer == "pack"


def test_a_setting_goes_over_the_file_and_its_default_does_not(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('policy = "las"\nplacer = "pack"\n[policy_options]\nlevels = 3')
    assert (read_site(config_of(tmp_path)).policy, read_site(config_of(tmp_path)).placer) == ("las", "pack")
    site = read_site(config_of(tmp_path, policy="fifo"))
    assert (site.policy, site.placer, site.policy_options) == ("fifo", "pack", {})
    assert read_site(config_of(tmp_path, policy="las")).policy_options == {"levels": 3.0}
    with pytest.raises(BadSpec, match="did you mean fifo") as refused:
        read_site(config_of(tmp_path, policy="fifoo", placer="x"))
    assert [v.field for v in refused.value.violations] == ["policy", "placer"]


def test_a_file_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for name, words in {
        "none.toml": "there is no such file",
        "broken": "there is no such file",
        ".": "is not a file",
        "binary": "is not text in UTF-8",
        "\0": "there is no such file",
    }.items():
        with pytest.raises(BadSpec, match=words):
            read_site(config_of(tmp_path, site=name))
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadSpec, match="there is no such file"):
        read_site(config_of(tmp_path))


def test_a_region_of_the_settings_is_known_too(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('[queues.a.quota]\n"T4@basement" = 1')
    assert "NVIDIA_TESLA_T4@basement" in read_file(tmp_path / "site.toml", "basement").queues["a"].quotas
    with pytest.raises(BadSpec):
        read_file(tmp_path / "site.toml", "attic")


def test_what_may_not_be_meant_is_remarked() -> None:
    first, second = remarks(parse_site("[queues.a.quota]\nMY_OWN_GPU = 1\nCPU = 1"))
    assert "default has no quota" in first and second.startswith("MY_OWN_GPU is in no table")
    assert not remarks(Site())
