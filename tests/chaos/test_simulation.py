"""The short form of the simulation: some seeds, the same story twice, a planted bug, and every state of a tiny site.

`make chaos` plays as many as it is told, and plants all the bugs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from .luck import RATES
from .mutants import MUTANTS, ROOT, Mutant, find
from .run import play, shrink
from .simulation import Simulation
from .small_scope import explore
from .watch import Violated

SEEDS = range(8)
played = cache(play)
KIND = "a program fails"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed(seed: int) -> None:
    outcome = played(seed)
    assert outcome.violation is None, outcome.story[-40:]
    assert outcome.steps > 100


def test_the_seeds_meet_faults_of_most_kinds() -> None:
    met = {fault.kind for seed in SEEDS for fault in played(seed).faults}
    assert len(met) > len(RATES) / 2


@pytest.mark.campaign
def test_played_again_a_seed_has_the_same_story() -> None:
    """In processes whose hashes differ, so that nothing may hang on the order of a set."""
    command = [sys.executable, "-c", "from tests.chaos.run import play; print(play(3).hash, play(5).hash)"]
    told = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": n}, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for n in "12"
    ]
    assert told[0] == told[1] and len(told[0].split()) == 2


@pytest.mark.parametrize("name", ["devices are released before the processes are gone"])
def test_a_planted_bug_is_found(name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    assert find(mutant, seeds=20)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.name))
def test_every_bug_can_still_be_planted(mutant: Mutant) -> None:
    """Where the source has changed, a planted bug has to follow."""
    text = (ROOT / "src/stoker" / mutant.file).read_text()
    assert text.count(mutant.old) == 1 and mutant.old != mutant.new


def test_a_story_is_shrunk_to_the_faults_that_it_takes() -> None:
    """A violation that one fault makes: of all that happened, that one is left."""

    class Cursed(Simulation):
        def _at_the_end(self) -> None:
            super()._at_the_end()
            if any(fault.kind == KIND for fault in self.faults.happened):
                raise Violated("made up", "for this test")

    failed = next(o for o in (Cursed(seed).run() for seed in range(40)) if o.violation is not None)
    assert len(failed.faults) > 3
    shrunk = shrink(failed, most_runs=60, simulation=Cursed)
    assert shrunk.violation is not None and shrunk.violation.name == "made up"
    assert [fault.kind for fault in shrunk.faults] == [KIND]


def test_every_state_of_a_tiny_site() -> None:
    found = explore(jobs=2, nodes=1, crashes=1)
    assert found.states > 1000 and found.moves > found.states
