"""Fuzzes all that reads what others have written, for a bounded time: `python -m tests.chaos.fuzz --seconds 300 --seed 1`.

Each target runs in a process of its own, one after the other, with an equal part of the time. Where atheris is installed
(`pip install -e '.[chaos]'`) it is led by coverage; else inputs are changed blindly, by the seed alone. Then the whole HTTP
API is asked by its own description. A find is saved and named in the table: `--replay FILE --target NAME` runs it again.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FINDS = Path("build/fuzz")
SLOW_SECONDS = 5.0
MOST_MEMORY_MB = 2048
HTTP = "http api"
_PIECES = [
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\n",
    b"\r\n",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"1e999",
    b"9" * 5000,
    b"-1",
    b"null",
    b"\\ud800",
]
_PIECES += [
    b"../",
    b"/",
    b"gs://",
    b"a" * 300,
    b"!!set ",
    b"&a ",
    b"*a ",
    b"\x1b[2J",
    b'"',
    b"'",
    b"(",
    b")",
    b"=",
    b"%00",
    b":",
    b",",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, show a table, and end with 1 if anything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--replay", type=Path, help="run one input, with --target")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.replay or asked.child:
        (name,) = asked.target
        return replay(name, asked.replay) if asked.replay else fuzz_here(name, asked.seconds, asked.seed)
    from tests.chaos.targets import TARGETS  # not in a child: there atheris has to see the imports

    names = asked.target or [*TARGETS, HTTP]
    print(f"{'TARGET':18} {'EXECUTIONS':>10} {'PER SECOND':>10} {'COVERED':>8}  FOUND", flush=True)
    finds = [find for name in names for find in in_a_process(name, asked.seconds / len(names), asked.seed)]
    for find in finds:
        print(f"  python -m tests.chaos.fuzz --target {find.parent.name!r} --replay {find}")
    return 1 if finds else 0


def in_a_process(name: str, seconds: float, seed: int) -> list[Path]:
    """Fuzz one target in a child, whatever becomes of it. Returns what was found."""
    folder = FINDS / name
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    command = [
        sys.executable,
        "-m",
        "tests.chaos.fuzz",
        "--child",
        "--target",
        name,
        f"--seconds={seconds}",
        f"--seed={seed}",
    ]
    started = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds * 3 + 120)
    took = time.monotonic() - started
    found = sorted(set(folder.iterdir()) - before)
    if ended.returncode and not found:
        found = [folder / "output.txt"]
    if found:
        (folder / "output.txt").write_text(ended.stdout + ended.stderr)
    executions = int((re.findall(r"number_of_executed_units: (\d+)", ended.stderr) or ["0"])[-1])
    covered = (re.findall(r"cov: (\d+)", ended.stderr) or ["-"])[-1]
    print(
        f"{name:18} {executions:10} {executions / max(took, 1e-9):10.0f} {covered:>8}  {', '.join(map(str, found)) or '-'}",
        flush=True,
    )
    return found


def fuzz_here(name: str, seconds: float, seed: int) -> int:
    """Fuzz one target in this process."""
    if name == HTTP:
        return ask_as_described(seconds, seed)
    if importlib.util.find_spec("atheris") is not None:
        return _led_by_coverage(name, seconds, seed)
    return _blindly(name, seconds, seed)


def _led_by_coverage(name: str, seconds: float, seed: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["stoker", "yaml", "zipfile", "tarfile"], enable_loader_override=False):
        from tests.chaos.targets import TARGETS, a_site, run
    make, seeds = TARGETS[name]
    with a_site() as site:
        target, corpus = make(site), site.folder / "corpus"
        corpus.mkdir()
        for number, data in enumerate(seeds):
            (corpus / str(number)).write_bytes(data)
        options = [
            f"-max_total_time={max(1, int(seconds))}",
            f"-seed={seed or 1}",
            f"-timeout={int(SLOW_SECONDS)}",
            "-max_len=4096",
        ]
        options += [
            f"-rss_limit_mb={MOST_MEMORY_MB}",
            f"-artifact_prefix={FINDS / name}/",
            "-print_final_stats=1",
            str(corpus),
        ]
        atheris.Setup([sys.argv[0], *options], lambda data: run(target, data))
        atheris.Fuzz()  # ends the process
    return 0


def _blindly(name: str, seconds: float, seed: int) -> int:
    from tests.chaos.targets import TARGETS, a_site, run

    make, seeds = TARGETS[name]
    chance, until, executions, finds = random.Random(f"{name} {seed}"), time.monotonic() + seconds, 0, 0
    with a_site() as site:
        target, pool = make(site), list(seeds)
        while time.monotonic() < until and finds < 5:
            data = changed(chance, pool)
            executions, started = executions + 1, time.monotonic()
            try:
                run(target, data)
                assert time.monotonic() - started < SLOW_SECONDS, "too slow"
            except Exception:
                finds += 1
                traceback.print_exc()
                (FINDS / name / f"find-{chance.getrandbits(32):08x}").write_bytes(data)
            if chance.random() < 0.01:
                pool = [*pool[-50:], data]
    print(f"number_of_executed_units: {executions}", file=sys.stderr)
    return 1 if finds else 0


def changed(chance: random.Random, pool: Sequence[bytes]) -> bytes:
    """An input with some of its bytes changed, taken out, put in, doubled, or joined with another."""
    data = bytearray(chance.choice(pool))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        begin, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        match chance.randrange(6):
            case 0 if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 1:
                del data[begin:end]
            case 2:
                data[begin:begin] = chance.choice(_PIECES)
            case 3:
                data[begin:end] = chance.choice(_PIECES)
            case 4:
                data[begin:begin] = data[begin:end]
            case 5:
                data[begin:] = chance.choice(pool)[begin:]
    return bytes(data)


def ask_as_described(seconds: float, seed: int) -> int:
    """Whatever fits the OpenAPI description, and what does not, of every operation, until the time is up."""
    import hypothesis
    import schemathesis

    from stoker.api.openapi import PATH
    from tests.chaos.targets import a_site

    until, counted = time.monotonic() + seconds, Counter[str]()
    with a_site() as site:
        headers = {"Authorization": f"Bearer {site.stoker.tokens.token}", "Host": "127.0.0.1:7077"}
        schema = schemathesis.openapi.from_asgi(PATH, site.app, headers=headers)
        while time.monotonic() < until:
            seed += 1
            for operation in (found.ok() for found in schema.get_all_operations()):
                ask = hypothesis.seed(seed)(_asking(operation, headers, counted))
                try:
                    ask()
                except BaseException:
                    (FINDS / HTTP / f"{seed}.txt").write_text(traceback.format_exc())
                    return 1
                if time.monotonic() > until:
                    break
    print(f"number_of_executed_units: {counted.total()}", file=sys.stderr)
    return 0


def _asking(operation: Any, headers: Mapping[str, str], counted: Counter[str]) -> Callable[[], None]:
    """A test of one operation: no case of it is answered with an error of ours."""
    import hypothesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error

    cases = [operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    streams = "follow" in {parameter.name for parameter in operation.query}
    checks = list(hypothesis.HealthCheck)

    @hypothesis.settings(max_examples=25, deadline=None, database=None, suppress_health_check=checks)
    @hypothesis.given(hypothesis.strategies.one_of(cases))
    def ask(case: Any) -> None:
        counted[operation.label] += 1
        case.headers = {**(case.headers or {}), **headers}
        if streams:
            case.query = {**(case.query or {}), "follow": "false"}
        case.validate_response(case.call(), checks=[not_a_server_error])

    return ask


def replay(name: str, path: Path) -> int:
    """Run one input; its error is shown."""
    from tests.chaos.targets import TARGETS, a_site, run

    with a_site() as site:
        run(TARGETS[name][0](site), path.read_bytes())
    print("nothing is wrong with it (any more)")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
