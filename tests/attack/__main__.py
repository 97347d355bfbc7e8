"""`python -m tests.attack`: every attack on a server of its own, at each level of isolation, and a table of what got in."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence

from . import files, floods, races
from .site import Site, Tries

Attack = Callable[[Site, float, Tries], None]
ATTACKS: dict[str, Attack] = {
    "raced steps": races.steps,
    "raced reads": races.reads,
    "raced writes": races.writes,
    "raced starts": races.starts,
    "pipes": files.pipes,
    "plain paths": files.plain_paths,
    "traversal": files.traversal,
    "replays": files.replays,
    "gangs": floods.gangs,
    "lines": floods.lines,
    "disk": floods.disk,
    "forks": floods.forks,
    "memory": floods.memory,
    "connections": floods.connections,
    "downloads": floods.downloads,
    "all together": floods.together,
}
LEVELS = (1, 2)
SETTINGS: dict[str, dict[str, str]] = {"memory": {"job_memory_gb": "2"}}
"""Settings that the admin of a site with such users would make."""


def why_not() -> str:
    """What is missing for the attacks here; empty: nothing is."""
    if not sys.platform.startswith("linux"):
        return "Linux"
    if os.getuid() != 0:
        return "root: the server's level 2 needs it"
    return "" if shutil.which("bwrap") else "bubblewrap"


def attack(name: str, level: int, seconds: float) -> Tries:
    """One attack on a server of its own."""
    tries = Tries()
    with Site(level, **SETTINGS.get(name, {})) as site:
        try:
            ATTACKS[name](site, seconds, tries)
        except Exception as error:
            log = (site.folder / "server.out").read_text(errors="replace")[-2000:]
            tries.note(f"the attack broke off: {type(error).__name__}: {error}; the server: {log}")
    return tries


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them, print the table, and return how many got in."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each attack at each level")
    parser.add_argument("--levels", default="1,2", help="levels of isolation, with commas between")
    parser.add_argument("--only", action="append", choices=list(ATTACKS), help="one attack; may be given again")
    asked = parser.parse_args(arguments)
    if missing := why_not():
        print(f"the attacks need {missing}")
        return 0
    got_in = 0
    for name in asked.only or ATTACKS:
        for level in map(int, asked.levels.split(",")):
            began = time.monotonic()
            tries = attack(name, level, asked.seconds)
            got_in += len(tries.let_in)
            row = f"{name:<14} level {level}  {tries.count:>8,} tries  {len(tries.let_in):>4} let in"
            print(f"{row}  {time.monotonic() - began:>4.0f} s  {tries.notes}", flush=True)
            for gained in list(dict.fromkeys(tries.let_in))[:5]:
                print(f"    {gained}", flush=True)
    print(f"{got_in} let in")
    return min(got_in, 100)


if __name__ == "__main__":
    sys.exit(main())
