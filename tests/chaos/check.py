"""What must hold after a round, told without Stoker's code from what stands on disk: journals, witnesses, logs, the database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .client import PROJECT
from .databases import Database

MOST_TRIES = 4
"""A job that was hit so often may fail for it: whole_job of its retries, and the first."""

_TRACEBACK = "Traceback (most recent call last)"


@dataclass(slots=True)
class Findings:
    """What was found wrong, by kind, each in a sentence."""

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Take those of another round too."""
        self.acknowledged += other.acknowledged
        for name in ("lost", "twice", "lines", "others"):
            getattr(self, name).extend(getattr(other, name))


@dataclass(slots=True)
class Known:
    """What the clients' journals know of one job."""

    asked: Mapping[str, Any]
    acknowledged: bool = False
    cancel_asked: bool = False


def check(database: Database, home: Path, journals: Path, witness: Path, hits: Mapping[str, int]) -> Findings:
    """Everything, once the server has ended and nothing lives. `hits`: how often a job's processes were killed."""
    found = Findings()
    known = read_journals(journals, found)
    found.acknowledged = sum(one.acknowledged for one in known.values())
    states = {str(i).partition("/")[2]: str(s) for i, s in database.rows("SELECT id, state FROM jobs")}
    attempts = {str(row[0]) for row in database.rows("SELECT id FROM attempts")}
    _check_database(database, found)
    runs = {path.name.removesuffix(".witness"): list(read_witness(path)) for path in witness.glob("*.witness")}
    for name, run in sorted(runs.items()):
        check_runs(name, run, attempts, found)
    for job, one in sorted(known.items()):
        before = len(found.lost)
        check_job(job, one, states.get(job), runs.get(f"{job}.chief-0", []), hits.get(job, 0), found)
        if len(found.lost) > before:
            found.lost[-1] += last_words(home / "logs" / PROJECT / f"{job}.jsonl")
    for path in sorted((home / "logs" / PROJECT).glob("*.jsonl")):
        if "." in path.stem:
            continue  # what is told beside the output, of which the lines are counted with it
        check_lines(path, known.get(path.stem), states.get(path.stem), found)
    for path in (home / "server.log", *home.glob("runs/*/*/*/supervisor.err")):
        text = path.read_text(errors="replace")
        if _TRACEBACK in text:
            found.others.append(f"{path.relative_to(home)}: {text[text.index(_TRACEBACK) :][:3000]}")
    return found


def read_journals(folder: Path, found: Findings) -> dict[str, Known]:
    """What all clients know, by job."""
    known: dict[str, Known] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the client was killed while it wrote this
            match entry["what"]:
                case "asks":
                    known[entry["job"]] = Known(entry)
                case "acknowledged":
                    known[entry["job"]].acknowledged = True
                case "cancels":
                    known[entry["job"]].cancel_asked = True
                case "wrong":
                    found.others.append(f"{entry['job']}: {entry['text']}")
    return known


def last_words(log: Path) -> str:
    """The end of a job's log, for who asks why it ended so."""
    return "".join(f"\n    {line[:300]}" for line in log.read_text().splitlines()[-6:]) if log.exists() else ""


def read_witness(path: Path) -> Iterator[tuple[str, int, int]]:
    """What the runs of one replica testified: word, attempt, restart."""
    for line in path.read_text().splitlines():
        word, attempt, restart = line.split()[:3]
        yield word, int(attempt), int(restart)


def check_runs(name: str, run: Sequence[tuple[str, int, int]], attempts: set[str], found: Findings) -> None:
    """No two attempts at one time; no second run under one number; none that was not ordered."""
    seen: set[tuple[int, int]] = set()
    for word, attempt, restart in run:
        if word == "overlap":
            found.twice.append(f"{name}: attempt {attempt} ran beside another")
        if word == "start":
            if (attempt, restart) in seen:
                found.twice.append(f"{name}: attempt {attempt}, restart {restart} was started twice")
            seen.add((attempt, restart))
            if f"{PROJECT}/{name.rpartition('.')[0]}.{attempt}" not in attempts:
                found.twice.append(f"{name}: attempt {attempt} ran, and the database does not know it")


def check_job(
    job: str, known: Known, state: str | None, run: Sequence[tuple[str, int, int]], hits: int, found: Findings
) -> None:
    """An acknowledged job exists, and ended as it had to."""
    if state is None:
        if known.acknowledged:
            found.lost.append(f"{job}: acknowledged, and gone")
        return
    may_be = {"FAILED"} if known.asked["kind"] == "fails" else {"SUCCEEDED"}
    may_be |= {"CANCELLED"} if known.cancel_asked else set()
    may_be |= {"FAILED"} if hits >= MOST_TRIES else set()
    if state not in may_be:
        found.lost.append(f"{job} ({known.asked['kind']}, killed {hits} times) is {state}, not {' or '.join(may_be)}")
    if state == "SUCCEEDED" and (not run or run[-1][0] != "end"):
        found.lost.append(f"{job} is SUCCEEDED, and its program did not reach its end")


def check_lines(path: Path, known: Known | None, state: str | None, found: Findings) -> None:
    """Every line of a replica once, in order, none missing between; of a job that succeeded, all.

    Lines that are told beside the output (what its processes use) lie in files of their own, and are counted with it.
    """
    numbers: dict[tuple[str, str], int] = {}
    aside = _aside(path)
    printed: dict[str, int] = {}  # of the chief: attempt and restart → the next line
    last = ""
    for raw in path.read_bytes().splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue  # cut off by a crash, and shipped again after
        key = line["a"], line["r"]
        while numbers.get(key, 0) + 1 in aside.get(key, ()):
            numbers[key] = numbers.get(key, 0) + 1
        if line["n"] != numbers.get(key, 0) + 1:
            found.lines.append(f"{key[0]}/{key[1]}: line {line['n']} comes after {numbers.get(key, 0)}")
        numbers[key] = line["n"]
        if line["s"] == "out" and line["r"] == "chief-0":
            _, attempt, restart, n = line["m"].split()
            last = f"{attempt} {restart}"
            if int(n) != printed.get(last, 0):
                found.lines.append(f"{path.stem}: of run {last} line {n} comes, not {printed.get(last, 0)}")
            printed[last] = int(n) + 1
    if known is not None and state == "SUCCEEDED" and printed.get(last) != known.asked["lines"]:
        found.lines.append(f"{path.stem}: {printed.get(last)} lines of {known.asked['lines']}")


def _aside(path: Path) -> dict[tuple[str, str], set[int]]:
    """The numbers of the lines that replicas of a job have told beside its output."""
    found: dict[tuple[str, str], set[int]] = {}
    for beside in path.parent.glob(f"{path.stem}.*.jsonl"):
        for raw in beside.read_bytes().splitlines():
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            found.setdefault((line["a"], line["r"]), set()).add(line["n"])
    return found


def _check_database(database: Database, found: Findings) -> None:
    if problem := database.problem():
        found.others.append(f"the database is broken: {problem}")
    first, last, count = database.rows("SELECT min(n), max(n), count(*) FROM story")[0]
    if count and (first, last) != (1, count):
        found.others.append(f"the story has a gap: {count} lines from {first} to {last}")
    back = database.rows("SELECT a.n, a.at, b.at FROM story a JOIN story b ON b.n = a.n + 1 WHERE b.at < a.at")
    if back:
        found.others.append(f"time goes back {len(back)} times in the story: {back[:3]}")
    for what, table, condition in (
        ("devices are held", "holdings", "1 = 1"),
        ("attempts live", "attempts", "live = 1"),
        ("jobs live", "jobs", "live = 1"),
    ):
        rows = database.rows(f"SELECT * FROM {table} WHERE {condition}")
        if rows:
            found.others.append(f"{len(rows)} {what} at the end: {rows[:3]}")
