"""Play many seeds: `python -m tests.chaos.seeds BASE COUNT [--until-one-fails]`. One line a seed that fails."""

from __future__ import annotations

import argparse
import logging
import sys

from .run import play

FOUND = 3
"""The exit status that tells of a violation, and of nothing else that may go wrong."""


def main(words: list[str]) -> int:
    """Returns FOUND if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.seeds", description=__doc__)
    parser.add_argument("base", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--until-one-fails", action="store_true")
    asked = parser.parse_args(words)
    logging.disable(logging.CRITICAL)
    failed = 0
    for seed in range(asked.base, asked.base + asked.count):
        outcome = play(seed)
        if outcome.violation is not None:
            failed += 1
            print(f"FAILED seed {seed}: {outcome.violation}".splitlines()[0], flush=True)
            if asked.until_one_fails:
                break
    return FOUND if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
