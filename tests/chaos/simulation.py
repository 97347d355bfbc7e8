"""One seed: a site, its users and its bad luck, played in virtual time, and looked at after each step.

Everything happens in one thread in an order that follows from the seed: the same seed has the same story, to the hash.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from stoker.clock import ManualClock
from stoker.core.errors import Deposed, StokerError
from stoker.core.ids import split_job_id
from stoker.core.node import Node
from stoker.core.site import Backfill, Preemption, Quota, Site, Victims
from stoker.core.site import Queue as SiteQueue
from stoker.scheduling.ledger import spent

from .cluster import Cluster, Supervisor
from .house import Server
from .luck import Crash, Fault, Faults
from .people import People
from .watch import FINAL, Violated, Watch

LONGEST_SECONDS = 12 * 3600.0
"""With faults off, everything that was accepted has ended by then, or never will."""

MOST_STEPS = 100_000
LOOK_SECONDS = 2.0
ERROR_SECONDS = 1.0
MEANWHILE = 0.3
"""How likely something else happens at a point within a round where it can."""

ROUND, START, ZOMBIE = "a round", "the server starts", "a server that hung does a round"


@dataclass(slots=True)
class Outcome:
    """How a seed went."""

    seed: int
    hash: str
    seconds: float  # of virtual time
    faults: list[Fault]
    restarts: int
    acknowledged: int
    steps: int
    violation: Violated | None = None
    story: list[str] = field(default_factory=list)
    recovered_seconds: list[float] = field(default_factory=list)  # from each death to the next round of a server


class Simulation:
    """One seed."""

    def __init__(self, seed: int, left_out: Collection[Fault] = (), only: Collection[Fault] | None = None) -> None:
        self.seed = seed
        self.dice = random.Random(f"{seed}/course")
        self.faults = Faults(seed, left_out=frozenset(left_out), only=None if only is None else frozenset(only))
        self.time = ManualClock()
        self.server_clock = _WallClock(self.time)
        self.home = Path(tempfile.mkdtemp(prefix="chaos-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.server: Server | None = None
        self.zombies: list[Server] = []
        self.story: list[str] = []
        self.restarts = 0
        self.steps = 0
        self.recovered: list[float] = []
        self._died_at: float | None = None
        self._digest = hashlib.sha256()
        self._events: list[tuple[float, float, int, str, Callable[[], None]]] = []
        self._count = 0
        self._tick_at: float | None = None
        self._in_round = False
        self._token_of: Callable[[str], str] = str
        self.cluster = Cluster(
            nodes=_nodes(self.dice),
            dice=random.Random(f"{seed}/cluster"),
            faults=self.faults,
            now=self.time.now,
            later=self.later,
            tell=self.tell,
            send=self._send_of_replica,
            steps_of=lambda job: self.people.steps.get(job, 5),
            milli_of=self._milli_of,
            is_cursed=lambda job: job in self.people.cursed,
            violated=_violated,
            meanwhile=self._meanwhile,
        )
        self.site = _site(self.dice)
        self.watch = Watch(self.home / "stoker.db", self.cluster, self.site, self.tell)
        self.people = People(
            dice=random.Random(f"{seed}/people"),
            ask=self._ask_of_people,
            later=self.later,
            watch=self.watch,
            queues=sorted(self.site.queues),
        )

    def run(self) -> Outcome:
        """Play it to its end."""
        violation: Violated | None = None
        try:
            self._play()
        except Violated as found:
            violation = found
            self.tell(str(found))
        finally:
            for server in (self.server, *self.zombies):
                if server is not None:
                    server.die()
            self.watch.close()
            shutil.rmtree(self.home, ignore_errors=True)
        return Outcome(
            seed=self.seed,
            hash=self._digest.hexdigest()[:16],
            seconds=self.time.now() - _BEGINNING,
            faults=self.faults.happened,
            restarts=self.restarts,
            acknowledged=len(self.people.acknowledged),
            steps=self.steps,
            violation=violation,
            story=self.story,
            recovered_seconds=self.recovered,
        )

    def tell(self, text: str) -> None:
        """One line of the story; the hash is of all of them."""
        line = f"{self.time.now() - _BEGINNING:10.3f}  {text}"
        self.story.append(line)
        self._digest.update(line.encode())

    def later(self, seconds: float, what: str, act: Callable[[], None]) -> None:
        """Let something happen after so long; of what happens at one moment, chance orders it."""
        self._count += 1
        heapq.heappush(self._events, (self.time.now() + seconds, self.dice.random(), self._count, what, act))

    def _play(self) -> None:
        self._start_server()
        jobs, seconds = self.dice.randint(3, 14), self.dice.uniform(60.0, 600.0)
        self.people.come(jobs, seconds)
        self._play_until(_BEGINNING + 2 * seconds)
        self.faults.has_ceased = True
        self.tell("faults cease")
        self.later(60.0, "the admin comes", lambda: self.people.look_after_nodes([n.name for n in self.cluster.nodes]))
        if not self._play_until(_BEGINNING + 2 * seconds + LONGEST_SECONDS, all_done=True):
            waiting = {job: known.state for job, known in self.watch.jobs.items() if known.state not in FINAL}
            raise Violated("liveness", f"with faults off for {LONGEST_SECONDS / 3600:g} h, these do not end: {waiting}")
        self._play_until(self.time.now() + 120.0)  # what is still on its way
        self._at_the_end()

    def _play_until(self, end: float, *, all_done: bool = False) -> bool:
        """Returns whether all that was acknowledged has ended, if that is asked."""
        while self._events and self._events[0][0] <= end:
            if all_done and self._is_done():
                return True
            at, _, _, what, act = heapq.heappop(self._events)
            self.time.time = max(self.time.time, at)
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Violated("liveness", f"it never comes to rest: {MOST_STEPS:,} steps, the last is {what}")
            act()
            self.watch.look()
        if not all_done:
            self.time.time = max(self.time.time, end)
        return self._is_done()

    def _is_done(self) -> bool:
        jobs = self.watch.jobs
        return all(known.state in FINAL for known in jobs.values()) and self.people.all_answered

    # The server: it starts, looks, dies.

    def _start_server(self) -> None:
        self.server_clock.set()
        try:
            server = Server(self.home, self.cluster, self.server_clock, self.faults, self.site)
        except Crash as crash:
            self.tell(f"the server dies at its start: {crash}")
            self.later(self.dice.uniform(0.1, 20.0), START, self._start_server)
            return
        except (StokerError, OperationalError) as error:
            self.tell(f"the server cannot start: {getattr(error, 'orig', error)}")
            self.later(self.dice.uniform(0.1, 20.0), START, self._start_server)
            return
        self.server, self._tick_at = server, None
        self._token_of = server.token_of  # the same for every server of this home
        self.tell("the server starts")
        server.listen(lambda _: self._tick_soon(server, self.dice.uniform(0.0, 0.05)))
        self._tick_soon(server, 0.0)

    def _dies(self, crash: Crash) -> None:
        assert self.server is not None
        self.tell(f"the server dies: {crash}")
        self.server.die()
        self.server = None
        self.restarts += 1
        self._died_at = self.time.now()
        if self.faults.strikes("the clock jumps"):
            self.server_clock.jump(self.dice.uniform(-3600.0, 3600.0))
        self.later(self.dice.uniform(0.1, 20.0), START, self._start_server)

    def _tick_soon(self, server: Server, seconds: float) -> None:
        at = self.time.now() + seconds
        if server is self.server and (self._tick_at is None or at < self._tick_at):
            self._tick_at = at
            self.later(seconds, ROUND, lambda: self._tick(server, at))

    def _tick(self, server: Server, at: float) -> None:
        if server is not self.server or at != self._tick_at:
            return
        self._tick_at = None
        if self.faults.strikes("the server hangs and another takes over"):
            self._hangs(server)
            return
        if self.faults.strikes("the server stands still"):
            self.tell("the server stands still")
            self._tick_soon(server, self.dice.uniform(5.0, 90.0))
            return
        self._in_round = True
        try:
            goes_on = server.loop.tick()
        except Crash as crash:
            if server is self.server:
                self._dies(crash)
            return
        except StokerError as error:
            self.tell(f"a round failed: {error}")
            self._tick_soon(server, ERROR_SECONDS)
            return
        except Exception as error:
            raise Violated("no round fails by a bug", f"{type(error).__name__}: {error}") from error
        finally:
            self._in_round = False
        self.watch.rounds += 1
        if self._died_at is not None:
            self.recovered.append(self.time.now() - self._died_at)
            self._died_at = None
        self._tick_soon(server, 0.001 if goes_on else self._pause(server))

    def _hangs(self, server: Server) -> None:
        """Another takes over, and this one wakes up again, and goes on as if nothing had been."""
        self.tell("the server hangs")
        self.server = None
        self.restarts += 1
        self.zombies.append(server)
        self.later(self.dice.uniform(8.0, 20.0), START, self._start_server)
        for _ in range(3):
            self.later(self.dice.uniform(0.5, 120.0), ZOMBIE, lambda: self._zombie_acts(server))

    def _zombie_acts(self, zombie: Server) -> None:
        self.tell("a server that hung does a round")
        if self.dice.random() < 0.5:
            zombie.store.look()
        ceased, self.faults.has_ceased = self.faults.has_ceased, True  # this one just goes on
        before = self.watch.position
        try:
            zombie.loop.tick()
        except Deposed as error:
            self.tell(f"it leads no more: {error}")
        except StokerError as error:
            self.tell(f"its round failed: {error}")
        finally:
            self.faults.has_ceased = ceased
        self.watch.look()
        if self.server is not None and self.watch.position > before:
            raise Violated("one leads", "a server that leads no more has written what it decided")

    def _meanwhile(self) -> None:
        """In the middle of a round, somebody else may be served."""
        server = self.server
        if not self._in_round or self.dice.random() > MEANWHILE:
            return
        at, _, _, what, act = self._events[0] if self._events else (0.0, 0.0, 0, "", None)
        if act is None or what in (ROUND, START, ZOMBIE) or at > self.time.now() + 1.0:
            return
        heapq.heappop(self._events)
        self.time.time = max(self.time.time, at)
        self.tell(f"in the middle of a round, {what}")
        self._in_round = False
        try:
            act()
        finally:
            self._in_round = True
        if self.server is not server:
            raise Crash("it died over a request")

    def _pause(self, server: Server) -> float:
        if any(known.live for known in self.watch.jobs.values()):
            return LOOK_SECONDS
        deadline = server.loop.next_deadline()
        return 30.0 if deadline is None else min(30.0, max(0.01, deadline - self.server_clock.now()))

    # The network between everybody and the server.

    def _send_of_replica(self, me: Supervisor, what: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        project, number = split_job_id(me.attempt)
        path = f"/stoker/replica/v1/{project}/{number}/{me.name}/{what}"
        token = self._token_of(me.attempt)
        if self.faults.strikes("a request comes late"):
            self.later(self.dice.uniform(1.0, 200.0), f"late: {path}", lambda: self._late(me, path, body, token))
        answer = self._request("POST", path, body, token=token)
        if answer is not None and answer[0] < 400:
            self._check_epoch(me, path)
        return answer

    def _late(self, me: Supervisor, path: str, body: dict[str, Any], token: str) -> None:
        before = self.watch.states.get(me.attempt)
        answer = self._request("POST", path, body, token=token)
        if answer is not None and answer[0] < 400 and before == "ENDED":
            raise Violated("4 old epoch", f"{path} of an attempt that has ended was accepted")

    def _check_epoch(self, me: Supervisor, path: str) -> None:
        before = self.watch.states.get(me.attempt)  # as before the request: what it has written is not read yet
        if before == "ENDED":
            raise Violated("4 old epoch", f"{path} of an attempt that has ended was accepted")

    def _ask_of_people(
        self, method: str, path: str, body: Any, *, may_be_cut: bool = False
    ) -> tuple[int, dict[str, Any]] | None:
        cut = may_be_cut and self.faults.strikes("an upload is cut off")
        answer = self._request(method, path, body, cut=cut)
        if answer is not None:
            self.tell(f"{method} {path}: {answer[0]}")
            if answer[0] >= 500 and answer[0] != 503:
                raise Violated("no answer is a bug", f"{method} {path}: {answer}")
        return None if cut else answer

    def _request(
        self, method: str, path: str, body: Any, *, token: str = "", cut: bool = False
    ) -> tuple[int, dict[str, Any]] | None:
        server = self.server
        if server is None or self.faults.strikes("a request is lost"):
            return None
        try:
            answer = server.answer(method, path, body, token=token, cut=cut)
            if self.faults.strikes("a request comes twice"):
                server.answer(method, path, body, token=token)
        except Crash as crash:
            self._dies(crash)
            return None
        return None if self.faults.strikes("an answer is lost") else answer

    def _milli_of(self, job: str) -> int:
        self.watch.look()  # it may have been written just now
        groups = self.watch.jobs[job].job.spec.groups
        return max(group.machine.milli_of_each for group in groups)

    # When all is over.

    def _at_the_end(self) -> None:
        self.watch.look()
        for job in self.people.acknowledged:
            if job not in self.watch.jobs:
                raise Violated("8 acknowledged jobs exist", f"{job} is lost")
        left = [program for program in self.cluster.programs]
        left_supervisors = [s.id for gang in self.cluster.gangs.values() for s in gang.values() if s.lives]
        if left or left_supervisors:
            raise Violated("15 orphans", f"left at the end: {left}, {left_supervisors}")
        server = self.server
        assert server is not None
        if server.store.world() != self.watch.world:
            raise Violated("the story leads to what is written", "the world that is stored is another one")
        self._check_lines(server)
        self._check_ledger(server)
        self._check_usage(server)

    def _check_lines(self, server: Server) -> None:
        """P7: what each replica has printed is kept once, and in order."""
        for attempt, gang in self.cluster.gangs.items():
            for supervisor in gang.values():
                job = self.watch.attempts[attempt].job
                kept = [
                    line.n
                    for line in server.logs.read(job)
                    if (line.attempt, line.replica) == (attempt, supervisor.name)
                ]
                if supervisor.was_cut_off and kept == list(range(1, len(kept) + 1)):
                    continue  # what it could not send went with its node
                if kept != list(range(1, len(supervisor.lines) + 1)):
                    printed = len(supervisor.lines)
                    raise Violated("P7 lines", f"{supervisor.id} has printed {printed} lines, and kept are {kept}")

    def _check_ledger(self, server: Server) -> None:
        """10: every second of every attempt is in the ledger, once."""
        for job_id in self.watch.jobs:
            job = server.store.job(job_id).job
            for attempt in server.store.attempts(job_id):
                held, told = (attempt.ended_at or 0.0) - attempt.placed_at, spent(job, attempt, self.server_clock.now())
                if abs(sum(told.values()) - max(0.0, held)) > 1e-6 or min(told.values()) < 0:
                    raise Violated(
                        "10 ledger", f"{attempt.id} held its places for {held:g} s, and the ledger has {told}"
                    )

    def _check_usage(self, server: Server) -> None:
        """Nothing is held any more."""
        holdings = self.watch.holdings()
        if holdings:
            raise Violated("9 usage", f"held though nothing lives: {holdings}")
        held = {standing.queue.name: standing.held for standing in server.services.queue.view().queues if standing.held}
        if held:
            raise Violated("9 usage", f"the books say {held}, and nothing lives")


_BEGINNING = ManualClock().now()


class _WallClock:
    """The server's clock: it goes on evenly while the server runs, and may have been set when it starts again."""

    def __init__(self, time: ManualClock) -> None:
        self._time = time
        self._offset = self._next_offset = 0.0

    def now(self) -> float:
        return self._time.now() + self._offset

    def jump(self, seconds: float) -> None:
        self._next_offset = seconds

    def set(self) -> None:
        self._offset = self._next_offset


def _violated(name: str, what: str) -> None:
    raise Violated(name, what)


def _nodes(dice: random.Random) -> list[Node]:
    found, lease_seconds = [], dice.choice((0.0, 0.0, 30.0))
    for n in range(dice.randint(1, 4)):
        gpus = dice.choice((0, 1, 2, 4, 4))
        found.append(
            Node(
                name=f"n{n}",
                engine="fake",
                zone="z",
                accelerator="NVIDIA_TESLA_T4" if gpus else "",
                devices=tuple(map(str, range(gpus))),
                vcpus=32.0,
                memory_gb=128.0,
                lease_seconds=lease_seconds,
            )
        )
    return found


def _site(dice: random.Random) -> Site:
    queues = {"default": SiteQueue(name="default")}
    if dice.random() < 0.5:
        quota = {"GPU": Quota(nominal_milli=2000)}
        queues = {name: SiteQueue(name=name, cohort="all", quotas=quota) for name in ("default", "other")}
    return Site(
        queues=queues,
        policy=dice.choice(("priority", "fifo", "las", "gittins", "ftf", "srsf")),
        placer=dice.choice(("best-fit", "fgd", "pack", "shadow-price", "spread")),
        backfill=dice.choice(list(Backfill)),
        preemption=Preemption(victims=dice.choice(list(Victims)), quantum_seconds=60.0),
        head_seconds=1800.0,
    )
