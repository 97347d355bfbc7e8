"""Jobs that hold GPUs and do nothing with them: who they are, since when, and when the site stops them.

A job is idle if, over a whole window, each of its GPUs was busy in hardly a sample, no step and no checkpoint was told, and its
processes computed next to nothing. A single burst does not make up for a window, and whoever evaluates or saves is not idle.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from stoker.clock import Clock
from stoker.core.job import KEEP, Attempt, Job
from stoker.core.states import AttemptState, Wish
from stoker.sampling.monitor import Monitor
from stoker.store.base import Store
from stoker.store.logs import STEPS, USAGE, Logs

from .findings.evidence import GpuUse, Use, uses_of
from .findings.of_gpus import IDLE_PERCENT
from .holders import holders_of
from .ledgers import lines_by_attempt
from .live_world import LiveWorld
from .training_steps import progress_of, saves_of

LOOK_SECONDS = 60.0
BURSTS_SHARE = 0.02
"""So much of a window may be busy, and it counts as idle."""

IDLE_CPUS = 0.2
"""A replica whose processes use more than that does something."""

_KNOWN_SHARE = 0.9  # of a window has to be known
_MOST_POINTS = 1000

_log = logging.getLogger("stoker.insight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A job that is idle now."""

    job: str
    since: float  # at least
    gpus: int
    stops_at: float | None  # None: the site does not stop it
    kept_until: float  # by its user; 0: not


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRules:
    """What the site does about them."""

    window_seconds: float  # 0: nothing is looked for
    stop_seconds: float  # so long after it was found idle it is stopped; 0: never


def is_idle(gpus: Sequence[GpuUse], uses: Mapping[str, Use], told_at: float, now: float, window_seconds: float) -> bool:
    """Whether a job is. `told_at`: when it told last of a step or a checkpoint. Where too little is known it is not."""
    if not gpus or told_at > now - window_seconds:
        return False
    if any(use.cpus > IDLE_CPUS for use in uses.values()):
        return False
    for gpu in gpus:
        busy = gpu.share("utilization_percent", above=IDLE_PERCENT)
        if busy is None or busy > BURSTS_SHARE or gpu.seconds < _KNOWN_SHARE * window_seconds or gpu.is_shared:
            return False
    return True


def devices_of(attempt: Attempt) -> frozenset[str]:
    """The GPUs that an attempt holds."""
    return frozenset(device for place in attempt.placements for device in place.devices)


def kept_until(job: Job) -> float:
    """Until when its user keeps it; 0: not at all."""
    said = job.labels.get(KEEP, "")
    return float(said) if said.isdigit() else 0.0


class IdleWatch:
    """Looks every minute, and stops what the site's rules say."""

    def __init__(
        self,
        rules: IdleRules,
        *,
        store: Store,
        logs: Logs,
        monitor: Monitor,
        live: LiveWorld,
        clock: Clock,
        stop: Callable[[str, str], None],
    ) -> None:
        """`stop`: called with a job and why; its program is told to end, and saves what it has."""
        self._rules = rules
        self._store = store
        self._logs = logs
        self._monitor = monitor
        self._live = live
        self._clock = clock
        self._stop = stop
        self._found: dict[str, Idle] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="idle", daemon=True)

    def start(self) -> None:
        """Begin, if there is anything to look for."""
        if self._rules.window_seconds and self._monitor.history is not None:
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def jobs(self) -> Mapping[str, Idle]:
        """Those that are idle, by id, as they were found last."""
        return dict(self._found)

    def look(self) -> None:
        """Find who is idle now, and stop whose time is over."""
        now = self._clock.now()
        found: dict[str, Idle] = {}
        with self._live.look() as world:
            running = [
                (job, attempt)
                for attempt in world.attempts.values()
                for job in [world.jobs.get(attempt.job)]
                if attempt.state is AttemptState.RUNNING and job is not None and job.wish is Wish.RUN
            ]
        quiet = {
            gpu.reading.device.uuid
            for gpu in self._monitor.gpus()
            if gpu.reading.values.get("utilization_percent", IDLE_PERCENT) < IDLE_PERCENT
        }
        for job, attempt in running:
            if self._is_idle(attempt, now, quiet):
                known, kept = self._found.get(job.id), kept_until(job)
                since = known.since if known is not None else now - self._rules.window_seconds
                stops_at = self._stops_at(known, kept, now)
                gpus = sum(len(place.devices) for place in attempt.placements)
                found[job.id] = Idle(job=job.id, since=since, gpus=gpus, stops_at=stops_at, kept_until=kept)
        self._found = found
        for idle in found.values():
            if idle.stops_at is not None and now >= idle.stops_at:
                minutes = (now - idle.since) / 60
                self._stop(
                    idle.job,
                    f"Its GPUs had been idle for {minutes:.0f} minutes, and this site gives such GPUs to others. What it had"
                    " saved is kept.",
                )

    def _stops_at(self, known: Idle | None, kept: float, now: float) -> float | None:
        """Its user is given the whole time from when it was found, or from the end of what was asked for."""
        if not self._rules.stop_seconds:
            return None
        if kept > now:
            return kept + self._rules.stop_seconds
        if known is not None and known.stops_at is not None:
            return known.stops_at
        return now + self._rules.stop_seconds

    def _is_idle(self, attempt: Attempt, now: float, quiet: Set[str]) -> bool:
        window = self._rules.window_seconds
        if attempt.started_at is None or attempt.started_at > now - window:
            return False
        if attempt.job not in self._found and not devices_of(attempt) <= quiet:
            return False  # one that is busy now is looked at again in a minute
        gpus = list(self._gpus(attempt, now))
        if not is_idle(gpus, {}, 0.0, now, window):
            return False  # most are busy, and their logs need not be read
        told = lines_by_attempt(self._logs, [attempt], attempt.job, STEPS).get(attempt.number, [])
        uses = lines_by_attempt(self._logs, [attempt], attempt.job, USAGE).get(attempt.number, [])
        moments = [window.at for progress in progress_of(told) for window in progress.windows]
        saved = saves_of(told).at
        told_at = max([*moments, *([saved] if saved is not None else [])], default=0.0)
        return is_idle(gpus, uses_of(uses, window), told_at, now, window)

    def _gpus(self, attempt: Attempt, now: float) -> Iterator[GpuUse]:
        history = self._monitor.history
        assert history is not None
        window, holders = self._rules.window_seconds, self._live.made(holders_of)
        for place in attempt.placements:
            for uuid in place.devices:
                count = min(_MOST_POINTS, int(window))
                points = history.points(
                    place.node, uuid, now - window, now, names=("utilization_percent",), count=count
                )
                replica, is_shared = f"{place.role}-{place.index}", len(holders.get(uuid, ())) > 1
                yield GpuUse(
                    replica=replica,
                    node=place.node,
                    uuid=uuid,
                    product="",
                    is_shared=is_shared,
                    points=points,
                )

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                _log.exception("idle GPUs cannot be looked for now")
