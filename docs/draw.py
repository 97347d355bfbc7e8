"""Writes the pages of docs/ that follow from the code: states, configuration, commands, errors, failures, api, …

    python -m docs.draw            write them
    python -m docs.draw --check    write nothing; end with 1 if one is stale

What the code cannot say, such as what a state means to a reader, stands here in tables. A name that the code has and a
table lacks is a KeyError, so nothing can be forgotten.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from docs.draw_alerts import alerts
from docs.draw_api import api
from docs.draw_choose import choose
from docs.draw_dependencies import dependencies
from docs.draw_failures import failures
from docs.draw_frameworks import frameworks
from docs.draw_monitoring import monitoring
from docs.draw_options import job_options, options
from docs.draw_site import site
from docs.draw_top import top
from docs.markdown import page, table
from stoker.api.errors import STATUS
from stoker.cli import show
from stoker.cli.main import VERBS, command_of
from stoker.core import errors
from stoker.core.states import (
    ATTEMPT_MOVES,
    FATE,
    FINAL_JOB_STATES,
    JOB_MOVES,
    REPLICA_MOVES,
    AttemptState,
    Cause,
    Fate,
    JobState,
    ReplicaState,
    ShownState,
    Wish,
    shown_state,
)
from stoker.settings import SETTINGS, Setting

from .fields import fields

DOCS = Path(__file__).parent

JOB = {
    JobState.QUEUED: "It waits: for its turn, for room, or for the pause after a failure.",
    JobState.ACTIVE: "It has places, and one live attempt.",
    JobState.SUCCEEDED: "Its program has done its work.",
    JobState.FAILED: "It cannot be done, or was tried often enough.",
    JobState.CANCELLED: "The user, or a time limit, has ended it.",
}
ATTEMPT = {
    AttemptState.PLACED: "Nodes and devices are held; the engine is told to start it.",
    AttemptState.STARTING: "The engine has it: some replica was seen.",
    AttemptState.RUNNING: "Every replica runs its program.",
    AttemptState.STOPPING: "Every replica is being ended: SIGTERM, the grace, SIGKILL. The devices are still held.",
    AttemptState.ENDED: "Every replica is gone, and the devices are free.",
}
REPLICA = {
    ReplicaState.NOTHING: "Nobody has seen it yet.",
    ReplicaState.STARTING: "Its supervisor fetches files, installs packages, or waits for the other replicas.",
    ReplicaState.UP: "Its program runs.",
    ReplicaState.SUCCEEDED: "Its program ended with 0.",
    ReplicaState.FAILED: "Its program ended with another code, or could not be started (then there is no code).",
    ReplicaState.LOST: "It is gone and left no result.",
}
CAUSE = {
    Cause.COMPLETED: "The job is done: the chief succeeded.",
    Cause.REPLICA_FAILED: "A program ended with an error of its own: trying again would not help.",
    Cause.REPLICA_CRASHED: "A program was ended by a signal, or by the loss of a peer: that may pass.",
    Cause.LAUNCH_FAILED: "A program could not be started at all.",
    Cause.HUNG: "No replica prints, beats or makes progress ([running.md](running.md#when-it-hangs)). It is tried once more.",
    Cause.REPLICA_LOST: "A replica is gone and left no result.",
    Cause.NODE_LOST: "A machine is gone, and what ran there has ended for certain ([nodes.md](nodes.md#nodes-that-are-lost)).",
    Cause.PREEMPTED: "Its machines went to a job before it; it goes on later ([site.md](site.md#preemption)).",
    Cause.DRAINED: "A machine is taken out of service; it goes on elsewhere ([nodes.md](nodes.md#cordon-and-drain)).",
    Cause.TIMED_OUT: "It ran longer than maxRunningTime.",
    Cause.WAITED_OUT: "It was not RUNNING within maxWaitTime.",
    Cause.CANCELLED: "The user wants it to stop.",
}
FATES = {
    Fate.SUCCEED: "The job is SUCCEEDED.",
    Fate.FAIL: "The job is FAILED.",
    Fate.CANCEL: "The job is CANCELLED.",
    Fate.RETRY: "Back to the queue, counted. Once the retries are used up, the job is FAILED.",
    Fate.REQUEUE: "Back to the queue, free of charge.",
}
SHOWN = {
    ShownState.QUEUED: "It waits. `stoker why JOB` says why.",
    ShownState.PREPARING: "It has places and is being started, or started again; or machines are on order for it.",
    ShownState.RUNNING: "Every replica runs; or the last ones are being ended.",
    ShownState.SUCCEEDED: "It is done.",
    ShownState.FAILED: "It failed. `stoker why JOB` and `stoker logs JOB` say how.",
    ShownState.CANCELLING: "It is being ended because somebody, or a time limit, wants so.",
    ShownState.CANCELLED: "It was ended.",
}
REASONS = {
    "NO_ROOM": "It is its turn, but not enough is free for the whole gang.",
    "BEHIND": "Others that want the same kind of machine are before it in the queue.",
    "RESERVED": "What is free is kept for a job before it, which this one would delay.",
    "MAKING_ROOM": "Others are being stopped for it: preempted, or gone already but for their last seconds.",
    "QUOTA": "Its queue holds all that it may of some resource ([site.md](site.md#quotas)).",
    "OUT_OF_SERVICE": "The nodes that could hold it are there, and are cordoned, about to leave, or down ([nodes.md](nodes.md)).",
    "NO_SUCH_NODES": "Nodes that could hold it were there when it was submitted, and are there no more.",
    "PROVISIONING": "Machines of the site's pools are on order for it ([clusters.md](clusters.md#machines-on-demand)).",
    "NO_CAPACITY": "Machines that were ordered for it did not come: no stock, no quota; they are ordered again after a while.",
    "BUDGET": "Its project may not spend more on machines by the hour, or this month ([site.md](site.md#budgets)).",
    "BACKOFF": "It failed and is tried again: at first nearly at once, then after a pause of 1, 4, 16 … seconds, 60 at most.",
    "HELD": "The server was started with `--hold`: jobs are accepted, and none is started.",
}
TYPES = {
    "text": "text",
    "flag": "true or false",
    "port": "0 to 65535",
    "seconds": "seconds, 0 to 86400",
    "lease": "seconds, 3 or more",
    "days": "days, 0 to 36500",
    "count": "a whole number",
    "count_or_auto": "a whole number, or `auto`",
    "gigabytes": "GB",
    "texts": "text,…",
    "users": "FIRST-LAST",
    "limit": "0 (none) to 1000000",
    "table": "name=value,…",
    "database": "a URL",
    "megabytes": "megabytes",
    "networks": "networks: 10.20.0.0/16,…",
    "mail_server": "a URL",
    "mail_address": "an address",
    "password": "text",
}


def states() -> str:
    """docs/states.md, from core/states.py."""
    return page(
        "States",
        "Every state machine is a table in `core/states.py`. A move that a table does not have is refused with an error."
        " What a user sees is worked out from these tables, and never stored.",
        "## What a user sees",
        table(["State", "Meaning"], [[f"`{state}`", SHOWN[state]] for state in ShownState]),
        "One function, `shown_state`, works it out from the job, the user's wish and the newest attempt:",
        table(["The job is", "and its attempt is", "wish RUN", "wish CANCEL"], list(shown_rows())),
        "## Job",
        diagram(JOB_MOVES, start=JobState.QUEUED),
        moves_table(JOB_MOVES, JOB),
        "## Attempt",
        "One try of the whole gang. Every end goes through STOPPING, also that of an attempt that was only PLACED: it may"
        " be running already, in the gap between the start and the next look. Devices are held until ENDED.",
        diagram(ATTEMPT_MOVES, start=AttemptState.PLACED),
        moves_table(ATTEMPT_MOVES, ATTEMPT),
        "## Replica",
        "One process of the gang, as it was last seen. A replica only goes forward: old news changes nothing.",
        diagram(REPLICA_MOVES, start=ReplicaState.NOTHING),
        moves_table(REPLICA_MOVES, REPLICA),
        "## Why an attempt ends, and what follows",
        "An attempt stores its cause. What follows for the job stands in one table, `FATE`:",
        table(
            ["Cause", "Meaning", "Fate"], [[f"`{cause}`", CAUSE[cause], f"`{fate}`"] for cause, fate in FATE.items()]
        ),
        table(["Fate", "What it does"], [[f"`{fate}`", FATES[fate]] for fate in Fate]),
        "Which exit code is an error of the program's own is told in [running.md](running.md#exit-codes), and how its cause is"
        " found in [failures.md](failures.md). A job that the user wants to stop is never tried again.",
        "## Why a job waits",
        "Whatever waits carries a code, a sentence and what would help. `stoker why JOB` shows them; `--json` has the code.",
        table(["Code", "Meaning"], [[f"`{code}`", text] for code, text in REASONS.items()]),
    )


def configuration() -> str:
    """docs/configuration.md, from config.SETTINGS."""
    rows = [[f"`{s.name}`", kind_of(s), shown_default(s), f"`STOKER_{s.name.upper()}`", s.help] for s in SETTINGS]
    return page(
        "Configuration",
        "Nothing has to be set. A value comes from the first of these that has it:",
        "1. a flag of the command\n2. the environment: `STOKER_` and the setting's name in capitals\n"
        "3. `stoker.yaml` in the current folder\n4. `config.yaml` in the home\n5. the default",
        "`stoker config list` shows every setting, its value and where that comes from. `stoker config set NAME VALUE`"
        " writes to the home's `config.yaml`. A running server reads its settings at its next start. An unknown name is an"
        " error that tells the nearest one.",
        "## Settings",
        table(["Setting", "Type", "Default", "Environment", "What it is"], rows),
        "A server in the background does not read `stoker.yaml`: what a server is to know belongs into its home's `config.yaml`,"
        " into the environment, or into flags of `stoker up`.",
        "The home is found by `STOKER_HOME` alone, before any file is read. Its default is `~/.local/share/stoker`, or"
        " `$XDG_DATA_HOME/stoker` if that is set; on macOS `~/Library/Application Support/stoker`.",
        "A `config.yaml` with one of each kind:",
        "```yaml\nport: 7100\nhold: false\nbuckets:\n  my-data: /data/my-data\nruntimes:\n"
        '  "2.11": /opt/tf-2.11/bin/python\n```',
        "The same two tables as text: `STOKER_BUCKETS=my-data=/data/my-data,other=/data/other`.",
        "## Other variables that are read",
        table(
            ["Variable", "What it does"],
            [
                ["`STOKER_DEBUG`", "Any text: an unexpected error shows its traceback."],
                ["`NO_COLOR`", "Any text: no colours. Without a terminal there are none anyway."],
                ["`FORCE_COLOR`", "Any text: colours, also without a terminal."],
                ["`XDG_DATA_HOME`", "Where the home lies by default."],
                ["`CUDA_VISIBLE_DEVICES`", "At the server: only these GPUs are Stoker's."],
                [
                    "`GOOGLE_APPLICATION_CREDENTIALS`",
                    "At the server: there is a cloud, so `unmapped_buckets: auto` means `cloud`. gcloud's own login file"
                    " counts as well.",
                ],
            ],
        ),
        "What a program finds in its environment is in [running.md](running.md#environment-variables).",
    )


def commands() -> str:
    """docs/commands.md, from click."""
    parts = [
        "Data goes to stdout, messages to stderr. `--json` is for programs. Flags of Stoker end at `--`; what follows is the"
        " program's. Exit codes are in [errors.md](errors.md#exit-codes).",
        table(["Command", "What it does"], [[f"[`stoker {v}`](#stoker-{v})", text] for v, text in VERBS.items()]),
    ]
    for verb in VERBS:
        for words, found in tree(command_of(verb), (verb,)):
            parts += described(words, found)
    return page("Commands", *parts)


def described(words: Sequence[str], command: click.Command) -> Iterator[str]:
    """One command: its usage, its help, its flags."""
    yield f"{'#' * (1 + len(words))} stoker {' '.join(words)}"
    pieces = command.collect_usage_pieces(click.Context(command, info_name=words[-1]))
    usage = " ".join(["stoker", *words, *pieces, *(["[-- ARGS...]"] if takes_user_args(command) else [])])
    yield f"```\n{usage}\n```"
    yield inspect.cleandoc(command.help or "")
    flags = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if flags:
        yield table(["Flag", "What it does"], [[f"`{spelling(flag)}`", help_of(flag)] for flag in flags])


def error_codes() -> str:
    """docs/errors.md, from core/errors.py, api/errors.py and cli/show.py."""
    rows = [
        [f"`{e.code}`", f"`{e.__name__}`", f"{STATUS[e.code][0]} `{STATUS[e.code][1]}`", exit_code(e), first_line(e)]
        for e in error_classes()
    ]
    return page(
        "Errors",
        "An error says what was found, where, and what to do. On the command line these are up to three lines on stderr;"
        " over HTTP they are JSON:",
        '```json\n{"error": {"code": 404, "message": "no job local/nope", "status": "NOT_FOUND"}}\n```',
        "`fix` stands beside `message` where there is something to do. A request that is wrong (`bad_spec`) or cannot be"
        " carried out (`not_ready`) lists everything that is wrong at once, under `details[].fieldViolations[]`, each with"
        " the path of its field and a sentence. So does `not_found` or `already_exists`, where a field names the thing.",
        "In Python the same classes are raised; `stoker.StokerError` is above them all. One more is raised by `job.wait()` and"
        " answered by no server: `stoker.JobFailed`, with the job's `state`, `exit_code` and message ([sdk.md](sdk.md)).",
        "## Codes",
        table(["Code", "Class", "HTTP", "Exit code", "Meaning"], rows),
        "One more: a request whose Host header names somebody else is answered with 421 `PERMISSION_DENIED`.",
        "## Exit codes",
        table(
            ["Exit code", "When"],
            [
                ["0", "It worked. `run`, `logs -f`, `wait`, `jobs stream-logs`: the job succeeded."],
                [
                    "1",
                    "Something failed: see the table above. Also when the reader of the output has gone away"
                    " (`stoker logs JOB | head`).",
                ],
                [str(show.USAGE), "The command was not understood."],
                ["3 to 6", "See the table above."],
                ["100, 103", "`stoker wait --status-codes`: the job failed, the job was cancelled."],
                ["130", "Ctrl-C. The job that was being followed goes on."],
                [
                    "any",
                    "`run`, `logs -f`, `wait`, `jobs stream-logs`, `jobs submit training --stream-logs` and `rehearse` end"
                    " with the exit code of the replica that failed first; 1 if there is none, also for a cancelled job.",
                ],
            ],
        ),
        "An error that nobody expected is one line and exit code 1. `STOKER_DEBUG=1` with the same command shows where.",
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "states.md": states,
    "configuration.md": configuration,
    "commands.md": commands,
    "errors.md": error_codes,
    "api.md": api,
    "fields.md": fields,
    "site.md": site,
    "failures.md": failures,
    "frameworks.md": frameworks,
    "alerts.md": alerts,
    "choose.md": choose,
    "monitoring.md": monitoring,
    "dependencies.md": dependencies,
    "pictures/top.svg": top,
    "options.md": options,
    "../src/stoker/client/job_options.py": job_options,  # for type checkers, which read no table
}


def shown_rows() -> Iterator[list[str]]:
    """What `shown_state` answers, in as few rows as tell all."""

    def row(job: JobState, what: str, attempt: AttemptState | None = None, cause: Cause | None = None) -> list[str]:
        shown = [f"`{shown_state(job, wish, attempt, cause)}`" for wish in (Wish.RUN, Wish.CANCEL)]
        return [f"`{job}`", what, *shown]

    yield row(JobState.QUEUED, "none, or an ended one")
    for attempt in (AttemptState.PLACED, AttemptState.STARTING, AttemptState.RUNNING):
        yield row(JobState.ACTIVE, f"`{attempt}`", attempt)
    for fate in Fate:
        causes = [cause for cause in Cause if FATE[cause] is fate]
        names = ", ".join(f"`{cause}`" for cause in causes)
        yield row(JobState.ACTIVE, f"`STOPPING` because of {names}", AttemptState.STOPPING, causes[0])
    for job in JobState:
        if job in FINAL_JOB_STATES:
            yield row(job, "ended", AttemptState.ENDED, None)


def diagram(moves: Mapping[Any, Iterable[Any]], *, start: StrEnum) -> str:
    """A table of moves as a mermaid state diagram."""
    lines = [f"    [*] --> {start}"]
    for before, afters in moves.items():
        lines += [f"    {before} --> {after}" for after in in_order(type(start), afters)] or [f"    {before} --> [*]"]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def moves_table(moves: Mapping[Any, Iterable[Any]], meaning: Mapping[Any, str]) -> str:
    """A table of moves with what each state means."""
    rows = []
    for state, afters in moves.items():
        shown = ", ".join(f"`{after}`" for after in in_order(type(state), afters))
        rows.append([f"`{state}`", meaning[state], shown or "nowhere: it is final"])
    return table(["State", "Meaning", "May go to"], rows)


def in_order(kind: type[StrEnum], some: Iterable[Any]) -> list[Any]:
    """The members of a set, in the order in which they are declared."""
    wanted = set(some)
    return [member for member in kind if member in wanted]


def kind_of(setting: Setting) -> str:
    """What a setting may be, in words."""
    name = getattr(setting.parse, "__name__", "")
    if name in TYPES:
        return TYPES[name]
    return " or ".join(f"`{choice}`" for choice in inspect.getclosurevars(setting.parse).nonlocals["choices"])


def shown_default(setting: Setting) -> str:
    """A default as one would write it."""
    if setting.default in ("", {}, []):
        return ""
    return f"`{str(setting.default).lower() if isinstance(setting.default, bool) else setting.default}`"


def tree(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        for name, sub in command.commands.items():
            yield from tree(sub, (*words, name))


def takes_user_args(command: click.Command) -> bool:
    """Whether what follows `--` is the program's."""
    return type(command).__name__ == "UserArgsCommand"


def spelling(flag: click.Option) -> str:
    """`-f, --follow`, `--port TEXT`."""
    names = ", ".join(sorted((*flag.opts, *flag.secondary_opts), key=lambda name: (name.startswith("--"), name)))
    if flag.is_flag:
        return names
    if flag.metavar:
        return f"{names} {flag.metavar}"
    if isinstance(flag.type, click.Choice):
        return f"{names} {'|'.join(flag.type.choices)}"
    if isinstance(flag.type, click.types.IntParamType | click.types.FloatParamType):
        return f"{names} N"
    return f"{names} {'PATH' if isinstance(flag.type, click.Path) else 'TEXT'}"


def help_of(flag: click.Option) -> str:
    """The help of a flag, with its default where it shows one."""
    text = re.sub(r"\s+", " ", flag.help or "")
    return f"{text} [default: {flag.default}]" if flag.show_default else text


def error_classes() -> list[type[errors.StokerError]]:
    """Every error class with a code of its own, in the order of the tree."""
    found = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.StokerError)]
    return sorted((c for c in found if not c.__name__.startswith("_")), key=lambda c: inspect.getsourcelines(c)[1])


def exit_code(kind: type[errors.StokerError]) -> int:
    """What the command line ends with: asked of cli/show.py itself."""
    refused = issubclass(kind, errors.BadSpec | errors.NotReady)
    problem = kind([errors.Violation("field", "text")]) if refused else kind()  # type: ignore[arg-type]
    with contextlib.redirect_stderr(io.StringIO()):
        return show.error(problem)


def first_line(kind: type) -> str:
    """The first line of a docstring."""
    return (kind.__doc__ or "").splitlines()[0]


def stale() -> list[str]:
    """The pages that are not what the code says now."""
    return [name for name, draw in PAGES.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != draw()]


def shown(name: str) -> str:
    """Where a page lies, from the root of the project."""
    return os.path.normpath(f"docs/{name}")


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them."""
    old = stale()
    if "--check" in arguments:
        for name in old:
            print(f"{shown(name)} is stale: run `make docs`", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        (DOCS / name).write_text(PAGES[name]())
        print(f"{shown(name)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
