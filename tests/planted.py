"""Bugs that are planted on purpose, a few a room, and the tests that have to find each: `make planted`.

Each is put into a copy of the project, and the tests that are named for it are run there. One that no test finds is an exit code
other than 0. The bugs of the control loop, which simulations find, are in tests/chaos/mutants.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Bug:
    """One change of the source, and who finds it."""

    file: str  # below src/stoker
    old: str
    new: str
    tests: str  # below tests, with spaces between


BUGS = (
    # core
    Bug("core/options.py", 'not in (o.default, "")', 'not in ("",)', "core/test_options.py"),
    Bug("core/options.py", "int(text) <= self.most", "int(text) < self.most + 2", "core/test_options.py"),
    Bug("core/spec.py", "return self.preemptible or self.resumable", "return self.preemptible", "scheduling"),
    # scheduling, site, control
    Bug(
        "scheduling/policies/priority.py",
        "return (-waiter.job.spec.priority,)",
        "return (waiter.job.spec.priority,)",
        "scheduling",
    ),
    Bug("scheduling/free.py", "key=lambda node: node.name", "key=lambda node: node.name[::-1]", "scheduling"),
    Bug("site/toml_tables.py", "if not 0 <= found <= MOST:", "if not found <= MOST:", "site"),
    Bug("control/queue_limit.py", "self._at_most[owner] += 1", "pass", "control/test_queue_limit.py"),
    # store
    Bug("store/tokens.py", "now >= found.expires_at", "now < found.expires_at", "store/test_tokens.py"),
    Bug("store/guards.py", "milli), 0) FROM holdings", "milli), 0) * 0 FROM holdings", "store/test_guards.py"),
    Bug("store/migrations/versions/0005_options.py", 'not in ("", "none")', 'not in ("",)', "store/test_migrations.py"),
    # api, client, cli
    Bug("api/access.py", "and path == METRICS_PATH ", "", "api/dialects/prometheus"),
    Bug("api/auth.py", "if not self.needs_token or", "if", "api"),
    Bug("api/dialects/prometheus/gpus.py", "value * metric.scale", "value", "api/dialects/prometheus"),
    Bug("client/job_body.py", "o.kind.write(flags[o.name])", "str(flags[o.name])", "cli/test_job_flags.py"),
    Bug("cli/job_flags.py", 'name = f"{name}/--no-{name[2:]}"', "pass", "cli/test_job_flags.py test_docs.py"),
    # alerts
    Bug("alerts/addresses.py", "return address.ipv4_mapped", "return address", "alerts/test_addresses.py"),
    Bug(
        "alerts/addresses.py",
        "if not is_allowed(address, networks)]",
        "if not is_allowed(address, networks)][1:]",
        "alerts",
    ),
    Bug("alerts/http_post.py", "((address, self.port)", "((self.host, self.port)", "alerts/test_http_post.py"),
    Bug("alerts/making.py", "line.n > rule.since", "True", "alerts/test_making.py"),
    Bug("alerts/reach.py", "and reach.sees(project)", "", "alerts/test_reach.py"),
    Bug(
        "store/alerts.py",
        "if rule.n in there and not _is_repeat(db, rule, alert)",
        "if rule.n in there",
        "store/test_alerts.py",
    ),
    Bug("store/alerts.py", "row.position != before.position or ", "", "store/test_alerts.py"),
    Bug(
        "api/dialects/native/overview.py",
        "                    if sees(project)\n",
        "",
        "api/dialects/native/test_overview.py",
    ),
    Bug("cli/top/recent.py", "total / count", "total", "cli/top"),
    # insight, kinds, hardware
    Bug("insight/bills.py", "max(since, attempt.placed_at)", "attempt.placed_at", "insight/test_bills.py"),
    Bug("kinds/training.py", "    env |= job.spec.program.variables\n", "", "kinds"),
    Bug("hardware/rules.py", "elif count < 0:", "elif count < -1:", "hardware"),
    Bug(
        "hardware/choosing/training_memory.py",
        "max(backward, update) + doubled",
        "backward + doubled",
        "hardware/choosing",
    ),
    Bug("hardware/choosing/speed.py", "max(compute, moved)", "compute", "hardware/choosing"),
    Bug(
        "hardware/choosing/ranking.py",
        "offer.memory_bytes < needed",
        "offer.memory_bytes <= needed",
        "hardware/choosing",
    ),
    Bug("hardware/choosing/amounts.py", "return usd / hours", "return usd", "hardware/choosing"),
    Bug("insight/job_use.py", "and min(late) >= _STEADY * peak", "", "insight/test_job_use.py"),
    Bug("insight/site_offers.py", "and world.takes_work(node)", "", "insight/test_site_offers.py"),
    # gpu, sampling
    Bug("gpu/nvml_reader.py", "one.value / 100", "one.value", "gpu"),
    Bug("gpu/nvml_reader.py", "card.unsupported.add(name)", "pass", "gpu"),
    Bug("sampling/series.py", "np.ceil(0.95 * known)", "np.ceil(0.05 * known)", "sampling"),
    Bug("sampling/history.py", "ON CONFLICT DO NOTHING", "ON CONFLICT DO UPDATE SET body = excluded.body", "sampling"),
    Bug("sampling/sampler.py", "fault=Fault.STUCK", "fault=None", "sampling"),
    Bug("sampling/monitor.py", "if sample.at >= oldest", "if True", "sampling"),
    # runtime, frameworks
    Bug("runtime/exits.py", "if 1 <= code <= 127:", "if 1 <= code <= 126:", "runtime/test_exits.py"),
    Bug("frameworks/processes/learning_rates.py", '"linear": float', '"linear": math.sqrt', "frameworks"),
    Bug(
        "frameworks/checkpointing/checkpoints.py", "is_proved or all(", "is_proved or any(", "frameworks/checkpointing"
    ),
)


def main() -> int:
    """Plant each, and say who was found."""
    missed = [bug for bug in BUGS if not is_found(bug)]
    print(f"{len(BUGS) - len(missed)} of {len(BUGS)} were found")
    return 1 if missed else 0


def is_found(bug: Bug) -> bool:
    """Whether a test fails with it."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "tests", "docs", "examples", "benchmarks", "monitoring"):
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, folder)
        path = Path(folder) / "src/stoker" / bug.file
        text = path.read_text()
        assert bug.old in text, f"{bug.file} has no {bug.old!r} any more: plant another one"
        path.write_text(text.replace(bug.old, bug.new))
        found = _fails(bug.tests.split(), folder)
    print(
        f"{'found ' if found else 'MISSED'} {bug.file}: {bug.old.strip()!r} → {bug.new!r} (tests/{bug.tests})",
        flush=True,
    )
    return found


def _fails(tests: Sequence[str], folder: str) -> bool:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *(f"tests/{name}" for name in tests),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{folder}/src"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests could not be run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


if __name__ == "__main__":
    sys.exit(main())
