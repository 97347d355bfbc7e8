"""The rules of the Muri simulator: what a restart costs, who comes first, which gangs fit, who ends next.

Learned from Rivendile/Muri (SIGCOMM'22, Apache-2.0): `simulator/run_sim.py` (`overhead_dict`, `shortest_first_sim_jobs`,
`dlas_sim_jobs`), `jobs.py` (queue limits), `switch.py` (`try_single_node_alloc`, `try_cross_node_alloc`) and `util.py`
(`search_dict_list`). Read, then written anew. Orders and fits are pure functions of plain numbers and sequences, so that
a live policy may use them; the two lines at the end hold the little that must be remembered between decisions.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

PROFILED_GPUS = (1, 2, 4, 8, 16, 32)
RESTART_SECONDS: Mapping[str, tuple[int, ...]] = {
    "a2c": (38, 39, 39, 46, 46, 46),
    "bert": (10, 10, 10, 10, 10, 10),
    "dqn": (5, 5, 6, 6, 8, 8),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
}
"""What Muri measured for a start of each program on each of PROFILED_GPUS (`overhead_dict`)."""
UNPROFILED_RESTART_SECONDS = 10

QUEUE_LIMITS_GPU_SECONDS = (3250, 7200)
"""Where 2D-LAS moves a job to its next queue. jobs.py has a third limit, 18000, which its three queues never use."""

SAME_INSTANT = 1e-9
"""Instants closer than this, relative to the later one, are one (`search_dict_list`): 10 ms after four months."""


@dataclass(slots=True, kw_only=True, eq=False)
class Work:
    """What is left to do of one job.

    Not frozen, unlike values elsewhere: every event charges every running job, and the copies would be the run time.
    """

    index: int  # in the order of submission
    gpus: int
    iteration_seconds: float
    restart_seconds: int
    remaining_iterations: float
    executed_seconds: float = 0.0
    checked_at_seconds: float = 0.0
    queue: int = 0  # of 2D-LAS

    @property
    def remaining_seconds(self) -> float:
        """How long it would still run if nothing more were charged."""
        return self.remaining_iterations * self.iteration_seconds

    def charge(self, now: float) -> None:
        """Count the time since the last check as run, less one restart.

        The quirk to know: EVERY running job pays at EVERY event, restarted or not; it never pays more than the time that
        passed. Only a job whose end is itself the next event pays nothing for its last stretch.
        """
        useful_seconds = max(now - self.checked_at_seconds - self.restart_seconds, 0)
        self.remaining_iterations -= useful_seconds / self.iteration_seconds
        self.executed_seconds = self.executed_seconds + now - self.checked_at_seconds  # rounded in this order
        self.checked_at_seconds = now


def restart_seconds(model_name: str, gpus: int) -> int:
    """What a restart of this program on so many GPUs costs.

    Muri knows gangs of PROFILED_GPUS only; another size is ours to decide, and costs what the next larger one does.
    """
    column = min(bisect_left(PROFILED_GPUS, gpus), len(PROFILED_GPUS) - 1)
    return RESTART_SECONDS[model_name][column] if model_name in RESTART_SECONDS else UNPROFILED_RESTART_SECONDS


def rank_by_remaining_time(remaining_seconds: float, gpus: int) -> float:
    """The place of a job under SRTF: the shortest remaining time first, however many GPUs it takes."""
    return remaining_seconds


def rank_by_remaining_service(remaining_seconds: float, gpus: int) -> float:
    """The place of a job under SRSF: the least remaining GPU-seconds first."""
    return remaining_seconds * gpus


def queue_of(attained_gpu_seconds: float, limits: Sequence[float] = QUEUE_LIMITS_GPU_SECONDS) -> int:
    """The queue of a job under 2D-LAS: one down for each limit that its attained GPU-seconds have reached.

    `dlas_sim_jobs` goes down one queue an event and has a promotion against starvation, which the published runs leave
    off. As every limit makes an event of its own, the number of limits reached says the same.
    """
    return bisect_right(limits, attained_gpu_seconds)


def fit_by_count(line: Iterable[Work], gpus: int) -> list[Work]:
    """Who runs when GPUs are only counted: one after the other, whoever does not fit is passed over.

    So runs Tiresias-L in Muri: nodes do not matter, and eight GPUs on eight nodes are as good as on one.
    """
    fitting: list[Work] = []
    for work in line:
        if work.gpus <= gpus:
            gpus -= work.gpus
            fitting.append(work)
            if not gpus:
                break
    return fitting


def fit_on_nodes(line: Iterable[Work], nodes: int, gpus_per_node: int) -> list[Work]:
    """Who runs when gangs are placed on empty nodes, one after the other; whoever does not fit is passed over.

    The source places all anew at every event, and moves are free. Its CPUs and memory never bind, and are left out.
    """
    free, idle = [gpus_per_node] * nodes, gpus_per_node * nodes
    fitting: list[Work] = []
    for work in line:
        if work.gpus <= idle and take(free, work.gpus, gpus_per_node):
            idle -= work.gpus
            fitting.append(work)
            if not idle:
                break
    return fitting


def take(free: list[int], gpus: int, gpus_per_node: int) -> bool:
    """Take a gang out of the free GPUs of the nodes, or leave them as they are.

    As many GPUs as fill nodes take the first empty nodes whole; the rest goes on the first other node with room. So a
    gang that fits a node is on one.
    """
    whole, rest = divmod(gpus, gpus_per_node)
    empty = [node for node, idle in enumerate(free) if idle == gpus_per_node][:whole] if whole else []
    last = next((node for node, idle in enumerate(free) if idle >= rest and node not in empty), None) if rest else None
    if len(empty) < whole or (rest and last is None):
        return False
    for node in empty:
        free[node] = 0
    if last is not None:
        free[last] -= rest
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A moment, and whom it concerns."""

    at_seconds: float
    works: Sequence[Work]


def first_end(running: Iterable[Work], now: float, same_instant: float) -> Instant:
    """When the next job ends if nothing else happens, and who ends with it; never, if nobody runs.

    An end within `same_instant` of one already listed joins it, so a job may end a little early or late. Hence the order
    of `running` counts.
    """
    ends: list[tuple[float, list[Work]]] = []
    for work in running:
        end = now + work.remaining_seconds
        for listed, works in ends:
            if math.isclose(listed, end, rel_tol=same_instant):
                works.append(work)
                break
        else:
            ends.append((end, [work]))
    at_seconds, works = min(ends, key=lambda listed: listed[0], default=(math.inf, []))
    return Instant(at_seconds=at_seconds, works=works)


class Line(Protocol):
    """Everybody who is there, and who of them runs."""

    def join(self, work: Work) -> None: ...

    def leave(self, work: Work) -> None: ...

    def choose(self, running: Sequence[Work]) -> list[Work]:
        """Who runs from now on, given who ran until now and has just been charged."""
        ...

    def next_end(self, running: Sequence[Work], now: float) -> Instant:
        """Who ends next, if nothing else happens."""
        ...

    def next_turn(self, running: Sequence[Work], now: float) -> float:
        """When the order must be looked at again though nobody comes or goes."""
        ...


class ShortestFirst:
    """Everybody sorted by what remains, after every event: SRTF and SRSF (`shortest_first_sim_jobs`).

    Run times are known. The sort is stable over the order of the last event, where newcomers stood last.
    """

    def __init__(self, rank: Callable[[float, int], float], nodes: int, gpus_per_node: int) -> None:
        self._rank = rank
        self._nodes = nodes
        self._gpus_per_node = gpus_per_node
        self._line: list[Work] = []

    def join(self, work: Work) -> None:
        """Put a newcomer last; the next choice sorts it in."""
        self._line.append(work)

    def leave(self, work: Work) -> None:
        """Forget a job that ended."""
        self._line.remove(work)

    def choose(self, running: Sequence[Work]) -> list[Work]:
        """The shortest ones that can be placed together."""
        rank = self._rank
        self._line.sort(key=lambda work: rank(work.remaining_iterations * work.iteration_seconds, work.gpus))
        return fit_on_nodes(self._line, self._nodes, self._gpus_per_node)

    def next_end(self, running: Sequence[Work], now: float) -> Instant:
        """The first end, with those that are next to it."""
        return first_end(running, now, SAME_INSTANT)

    def next_turn(self, running: Sequence[Work], now: float) -> float:
        """Never: between events, who runs only gets shorter and so stays in front."""
        return math.inf


class LeastAttained:
    """Three queues by attained GPU-seconds, first come first served in each: Tiresias-L, 2D-LAS (`dlas_sim_jobs`).

    Run times are not known. All queues stand in one list, in order. A job that reaches a limit goes to the end of the
    next queue, those who do so together in order of submission. After each choice those who run go before those who wait
    in the same queue, and otherwise keep their order: so who was once passed over stays behind whoever was chosen.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._line: list[Work] = []

    def join(self, work: Work) -> None:
        """Put a newcomer at the end; being in the first queue, the next choice sorts it in."""
        self._line.append(work)

    def leave(self, work: Work) -> None:
        """Forget a job that ended."""
        self._line.remove(work)

    def choose(self, running: Sequence[Work]) -> list[Work]:
        """The jobs first in line that together need no more GPUs than there are."""
        # 1. Who has reached a limit goes to the end of its new queue.
        for work in sorted(running, key=lambda work: work.index):
            queue = queue_of(work.executed_seconds * work.gpus)
            if queue != work.queue:
                work.queue = queue
                self._line.remove(work)
                self._line.append(work)
        self._line.sort(key=lambda work: work.queue)
        # 2. Who fits, runs.
        chosen = fit_by_count(self._line, self._gpus)
        # 3. In each queue, who runs goes before who waits.
        runs = {work.index for work in chosen}
        self._line.sort(key=lambda work: 2 * work.queue + (work.index not in runs))
        return chosen

    def next_end(self, running: Sequence[Work], now: float) -> Instant:
        """The first end. Only exactly equal ends are one here."""
        return first_end(running, now, 0.0)

    def next_turn(self, running: Sequence[Work], now: float) -> float:
        """When the first of the running reaches a limit, in run time rounded up to a whole second.

        Rounding may put that at `now`, where the source would turn for ever; then the next number is taken.
        """
        turns = (
            math.ceil(QUEUE_LIMITS_GPU_SECONDS[work.queue] / work.gpus) - work.executed_seconds + now
            for work in running
            if work.queue < len(QUEUE_LIMITS_GPU_SECONDS)
        )
        return max(min(turns, default=math.inf), math.nextafter(now, math.inf))


LINES: Mapping[str, Callable[[int, int], Line]] = {
    "srtf": lambda nodes, gpus_per_node: ShortestFirst(rank_by_remaining_time, nodes, gpus_per_node),
    "srsf": lambda nodes, gpus_per_node: ShortestFirst(rank_by_remaining_service, nodes, gpus_per_node),
    "tiresias-l": lambda nodes, gpus_per_node: LeastAttained(nodes * gpus_per_node),
}
"""The policies by name, each for so many nodes of so many GPUs."""
