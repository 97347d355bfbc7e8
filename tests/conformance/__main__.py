"""`python -m tests.conformance [FILE…]`: put cases to a server, print a line for each, exit with 0 if all is as it should be.

Without --url it starts servers of its own, and ends them. A case PASSes, FAILs or is NOT YET served. The rule of the last,
for every file alike: a case whose id is on the list in not_yet.py must be answered with 501 UNIMPLEMENTED somewhere on its
way, and then counts as NOT YET and does no harm to the exit code; answered otherwise it FAILs, for it is to be taken off the
list. A case that is not on the list FAILs by a 501 that it does not expect, as by anything else.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from .layout import BadFile, CaseFile, read_cases
from .not_yet import NOT_YET
from .run import Result, Runner, Verdict
from .servers import NoServer, own_servers
from .target import Target

OWN_CASES = Path(__file__).with_name("cases.yaml")


def main(words: Sequence[str] | None = None) -> int:
    """Run it. 0: all well, 1: some case failed, 2: it could not be tried, 130: interrupted."""
    options = _parser().parse_args(words)
    begun = time.monotonic()
    try:
        files = _chosen([read_cases(path) for path in options.files or [OWN_CASES]], options.only)
        results = _run(files, options)
    except (BadFile, NoServer) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    counts = Counter(result.verdict for result in results)
    said = ", ".join(f"{counts[verdict]} {verdict.lower()}" for verdict in Verdict)
    print(f"{len(results)} cases: {said}, in {time.monotonic() - begun:.1f} s")
    return 1 if counts[Verdict.FAIL] or not results else 0


def _run(files: Sequence[CaseFile], options: argparse.Namespace) -> list[Result]:
    tell = (lambda text: print(_indented(text), flush=True)) if options.verbose else (lambda _: None)
    with ExitStack() as stack:
        urls = (options.url, options.hold_url) if options.url else stack.enter_context(own_servers())
        targets = [Target(url, options.token, tell=tell) if url else None for url in urls]
        for target in filter(None, targets):
            stack.callback(target.close)
        normal, holding = targets
        assert normal is not None
        results: list[Result] = []
        for file in files:
            runner = Runner(normal, holding, headers=file.headers, not_yet=NOT_YET, region=options.region)
            for case in file.cases:
                results.append(runner.run(case))
                _show(results[-1])
        return results


def _show(result: Result) -> None:
    print(f"{result.verdict:8}{result.case.id}  {result.case.name}", flush=True)
    for reason in result.reasons:
        print(_indented(reason), flush=True)


def _chosen(files: Sequence[CaseFile], only: Sequence[str]) -> list[CaseFile]:
    """The cases that were asked for, by their ids; all, if none were."""
    known = [case.id for file in files for case in file.cases]
    if unknown := set(only) - set(known):
        raise BadFile(f"no case {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [replace(file, cases=tuple(c for c in file.cases if not only or c.id in only)) for file in files]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="Put conformance cases to a server."
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="files of cases; without one, our own")
    parser.add_argument("--url", help="a server that runs, in place of servers of our own")
    parser.add_argument("--hold-url", help="a server that starts nothing, for the cases with hold: true")
    parser.add_argument("--token", default="", help="the token to show to these servers")
    parser.add_argument("--region", default="us-central1", help="a region that the server accepts [%(default)s]")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[], metavar="ID,ID", help="these cases only"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print requests and answers")
    return parser


def _indented(text: str) -> str:
    return "\n".join(f"          {line}" for line in text.splitlines())


def _leave(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)  # our servers are ended in any case
    sys.exit(main())
