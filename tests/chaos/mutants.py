"""Planted bugs. Each is one small change of a copy of the source; the simulation must find every one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .seeds import FOUND

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug."""

    name: str
    file: str
    old: str
    new: str


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="an old attempt's writes are accepted",
        file="api/dialects/replica/attempts.py",
        old="    if found.state is AttemptState.ENDED:\n        raise Conflict",
        new="    if False:\n        raise Conflict",
    ),
    Mutant(
        name="devices are released before the processes are gone",
        file="scheduling/settle.py",
        old="        if not seen <= FINAL_REPLICA_STATES:\n            return None\n",
        new="",
    ),
    Mutant(
        name="what is acknowledged is not committed",
        file="store/group_commit.py",
        old="                db.commit()\n",
        new="                db.commit() if position % 7 != 3 else db.rollback()\n",
    ),
    Mutant(
        name="who was stopped for others has failed",
        file="core/states.py",
        old="    Cause.PREEMPTED: Fate.REQUEUE,",
        new="    Cause.PREEMPTED: Fate.FAIL,",
    ),
    Mutant(
        name="the limit of running is not looked at",
        file="scheduling/settle.py",
        old="    if attempt.started_at is not None and now >= attempt.started_at + job.spec.limits.running_seconds:",
        new="    if False:",
    ),
    Mutant(
        name="a lost replica is not waited for until its lease is over",
        file="scheduling/nodes.py",
        old="    return attempt.lease_seconds * (1 + MARGIN)",
        new="    return attempt.lease_seconds * 0.3",
    ),
    Mutant(
        name="what an earlier term decides is written",
        file="store/group_commit.py",
        old="        if batch.term is not None and batch.term != term:",
        new="        if False:",
    ),
    Mutant(
        name="what was cancelled is tried again",
        file="scheduling/settle.py",
        old="    if job.wish is Wish.CANCEL:\n        return Cause.CANCELLED, job.wish_why\n",
        new="",
    ),
    Mutant(
        name="a replica's last lines are not fetched",
        file="control/observe.py",
        old="                    if seen.state in FINAL_REPLICA_STATES and not _fetch_lines",
        new="                    if False and not _fetch_lines",
    ),
    Mutant(
        name="lines that come twice are kept twice",
        file="store/log_file.py",
        old='                if line["n"] > last:\n                    last = line["n"]\n',
        new='                if line["n"] > last - 3:\n                    last = max(last, line["n"])\n',
    ),
    Mutant(
        name="after a round that failed, the world is not read again",
        file="control/loop.py",
        old="        if self._is_half_done:\n            self._read_anew",
        new="        if False:\n            self._read_anew",
    ),
    Mutant(
        name="a program starts before everybody is there",
        file="api/dialects/replica/routes.py",
        old=".encode() if all(r.addresses for r in found.replicas)",
        new=".encode() if any(r.addresses for r in found.replicas)",
    ),
    Mutant(
        name="devices are given back twice",
        file="scheduling/scheduler.py",
        old="            state.runners.discard(attempt.id)\n        elif attempt.state in STOPPABLE",
        new="            state.runners.discard(attempt.id)\n            state.free.release(job.spec, attempt)\n"
        "        elif attempt.state in STOPPABLE",
    ),
    Mutant(
        name="a stop is ordered once, and never again",
        file="scheduling/due.py",
        old="            orders.append(Stop(attempt.id, force=late))",
        new="            if now < (attempt.stopping_at or 0.0) + 1.0:\n"
        "                orders.append(Stop(attempt.id, force=late))",
    ),
    Mutant(
        name="a start is ordered once, and never again",
        file="scheduling/due.py",
        old="AttemptState.STARTING)\n            and any(",
        new="AttemptState.STARTING)\n            and now < attempt.placed_at + 1.0 and any(",
    ),
    Mutant(
        name="a failure does not count against the retries",
        file="scheduling/settle.py",
        old="        counted=1,\n",
        new="        counted=0,\n",
    ),
    Mutant(
        name="quotas are not looked at",
        file="scheduling/usage.py",
        old="            if asked and not self._may_hold(",
        new="            if False and not self._may_hold(",
    ),
    Mutant(
        name="a wish that comes in the middle of a round is overlooked",
        file="control/loop.py",
        old="            if position != self._world.position + len(changes):  # others wrote in between",
        new="            if False:  # others wrote in between",
    ),
)


def find(mutant: Mutant, seeds: int, base: int = 0) -> str | None:
    """What the simulation says about a planted bug: the violation; None if it finds nothing in so many seeds.

    Raises ValueError if the source has changed so that the bug cannot be planted.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        path = source / "stoker" / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.name}: {mutant.file} has its place {text.count(mutant.old)} times, not once")
        path.write_text(text.replace(mutant.old, mutant.new))
        command = [sys.executable, "-m", "tests.chaos.seeds", str(base), str(seeds), "--until-one-fails"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        if done.returncode not in (0, FOUND):
            raise RuntimeError(f"{mutant.name}: {done.stderr[-2000:]}")
        return found[0].removeprefix("FAILED ") if found else None


def survivors(mutants: Sequence[Mutant], seeds: int) -> list[str]:
    """The names of the planted bugs that are not found."""
    return [mutant.name for mutant in mutants if find(mutant, seeds) is None]
