"""The site file: queues, quotas, policies and what may be preempted, as the admin wrote them (docs/site.md).

It is read once, when a server starts. Everything that is wrong with it is told at once, each with its line.
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from stoker.config import Config
from stoker.core.errors import BadSpec, Violation
from stoker.core.site import DEFAULT_QUEUE, Backfill, Preemption, Site, Victims
from stoker.hardware.accelerators import find_accelerator
from stoker.registry import load, names
from stoker.scheduling.usage import ALL_ACCELERATORS, VCPUS

from .pool_tables import check_prices, read_budgets, read_pools
from .queue_tables import read_queues
from .toml_tables import Problems, Table, a_count, a_duration, a_number, a_switch, at_most, one_of, shown, unknown

FILE_NAME = "site.toml"
FIX = "docs/site.md has every key; stoker config check-site FILE checks a file without a server"
_OF_SETTINGS = {"policy": "policies", "placer": "placers"}
_LARGEST_OPTION = 1e6

Choice = TypeVar("Choice", bound=StrEnum)


def read_site(config: Config) -> Site:
    """The site's rules: the file's, under what the settings say. Raises BadSpec with everything that is wrong with them."""
    path = site_path(config)
    return with_settings(Site() if path is None else read_file(path, config["region"]), config)


def site_path(config: Config) -> Path | None:
    """The site file of a server: the one that was named, or `site.toml` in its home, if it is there. None: there is none."""
    if config["site"]:
        return config.home / Path(config["site"]).expanduser()
    return config.home / FILE_NAME if os.path.lexists(config.home / FILE_NAME) else None


def read_file(path: Path, region: str = "") -> Site:
    """The rules that a file tells. `region`: one that is known beside those of the catalog."""
    try:
        if not path.is_file():
            raise _unusable(path, "is not a file" if path.exists() else "there is no such file")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unusable(path, "is not text in UTF-8") from None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from None
    return parse_site(text, str(path), region)


def parse_site(text: str, name: str = FILE_NAME, region: str = "") -> Site:
    """The rules that a text in TOML tells. `name`: what errors call it."""
    text = text.replace("\r\n", "\n")
    problems = Problems(name, text)
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problems.add_unreadable(error)
        values = {}
    site = _read_site(Table(values, problems), [region] if region else [])
    problems.raise_if_any(FIX)
    return site


def with_settings(site: Site, config: Config) -> Site:
    """What a setting says goes over what the file says; the default of a setting does not."""
    violations, found = [], {}
    for name, group in _OF_SETTINGS.items():
        setting = config.values[name]
        if setting.source != "default":
            if setting.value not in names(group):
                problem = f"{setting.value!r} ({setting.source}): {unknown(name, setting.value, names(group))}"
                violations.append(Violation(name, problem))
            found[name] = setting.value
    if violations:
        raise BadSpec(violations)
    if found.get("policy", site.policy) != site.policy:
        site = replace(site, policy_options={})  # they are another policy's
    return replace(site, **found)


def remarks(site: Site) -> list[str]:
    """What an admin may not have meant, though nothing is wrong with it."""
    said = []
    limited = [queue for queue in site.queues.values() if queue.quotas]
    if limited and not site.queues[DEFAULT_QUEUE].quotas:
        said.append("the queue default has no quota: who names no queue may take all that is free")
    resources = {resource.partition("@")[0] for queue in limited for resource in queue.quotas}
    for name in sorted(resources - {ALL_ACCELERATORS, VCPUS}):
        if find_accelerator(name) is None:
            said.append(
                f"{name} is in no table of accelerators: it counts if a GPU of this site is called so (stoker nodes)"
            )
    return said


def _read_site(table: Table, more_regions: list[str]) -> Site:
    plain, preemption = Site(), table.table("preemption")
    policies = names("policies")
    policy = table.read("policy", "" if "policy" in table else plain.policy, one_of("policy", policies))
    usual, options = plain.preemption, table.table("policy_options")
    scaling = table.table("scaling")
    region = more_regions[0] if more_regions else ""
    site = Site(
        policy=policy or plain.policy,
        policy_options=_read_options(options, policy) if policy else {},
        placer=table.read("placer", plain.placer, one_of("placer", names("placers"))),
        backfill=table.read("backfill", plain.backfill, _member(Backfill)),
        head_seconds=table.read("head", plain.head_seconds, a_duration),
        share_by=table.read("share_by", plain.share_by, one_of("sharer", ("queue", "user"))),
        half_life_seconds=table.read("half_life", plain.half_life_seconds, a_duration),
        defrag=table.read("defrag", plain.defrag, a_switch),
        preemption=Preemption(
            victims=preemption.read("victims", usual.victims, _member(Victims)),
            quantum_seconds=preemption.read("quantum", usual.quantum_seconds, a_duration),
            budget=preemption.read("budget", usual.budget, a_count),
            cost_seconds=preemption.read("cost", usual.cost_seconds, a_duration),
        ),
        queues=read_queues(table.table("queues"), policies, more_regions),
        pools=read_pools(table.table("pools"), region, more_regions),
        idle_seconds=scaling.read("idle", plain.idle_seconds, a_duration),
        patience_seconds=scaling.read("patience", plain.patience_seconds, a_duration),
        budgets=read_budgets(table.table("budgets")),
    )
    if site.budgets and table.is_well:
        check_prices(site.pools, table.table("pools"))
    preemption.end()
    scaling.end()
    table.end()
    return site


def _member(kind: type[Choice]) -> Callable[[Any], Choice]:
    read = one_of("choice", [str(member) for member in kind])
    return lambda value: kind(read(value))


def _read_options(table: Table, policy: str) -> dict[str, float]:
    """The options of a policy: numbers that its constructor takes."""
    make = load("policies", policy)
    parameters = inspect.signature(make).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    options = {
        key: table.read(key, 0.0, at_most(_LARGEST_OPTION, "is larger than", a_number))
        for key in table.keys()
        if takes_any or key in parameters
    }
    for key in table.keys():
        if key not in options:
            table.refuse(key, f"{unknown('option', key, parameters)} (the policy is {policy})")
    try:
        make(**options)
    except Exception as error:  # whatever its constructor makes of them
        table.refuse("", f"{shown(options)} does not suit the policy {policy}: {error}")
    return options


def _unusable(path: Path, problem: str) -> BadSpec:
    return BadSpec([Violation(str(path), problem)], fix=f"name another by --site or the setting `site`; {FIX}")
