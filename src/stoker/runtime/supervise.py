"""The road of one replica, from its request to its final report. Read `supervise` top to bottom."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from stoker.beat_files import IN_STEP, STEPS

from . import cgroups, own_archive
from .errors import MAY_PASS, CannotStart, complain
from .exits import LEASE_OVER, RESTARTABLE, exit_class, shown_exit_code
from .folder import Folder
from .kernel import Kernel
from .lease import Lease
from .lines import Log
from .output_limit import OutputLimit
from .ports import reserve
from .priority import be_supervisor
from .processes import become_reaper, descendants
from .program import Ended, Program
from .repeated_ends import MOST_ALIKE, End, Ends, place_of
from .sandbox import Sandbox
from .server import Refused, Server
from .steps_file import StepsFile
from .umask import close_files
from .usage import Usage
from .variables import variables_of_program
from .wiring import Cluster, wiring
from .work_folder import WorkFolder

if TYPE_CHECKING:
    from .hang import Watch
    from .questions import Questions
    from .site_folders import SiteFolders

DRAIN_SECONDS = 10.0
_STARTING_SECONDS = 1.0
_FULL_DISK_SECONDS = 0.5


class Supervisor:
    """One replica's life."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.request = {"umask": close_files(), **folder.read_request()}
        cgroups.join(self.request.get("cgroup", []))
        be_supervisor(self.request.get("nicer", 0), self.request.get("processes_per_user", 0))
        self.sandbox = Sandbox(self.request, folder)
        self._site = ""
        self._made: List[str] = []
        self._stop_asked = False
        self._status: Dict[str, Any] = {}
        self._failure: Dict[str, Any] = {}
        self._kernel: Kernel  # as it was when the program was started
        self._watch: Optional[Watch] = None
        self._questions: Optional[Questions] = None
        self._started_at = 0.0
        self._work = WorkFolder(folder, self.request)
        self._program: Optional[Program] = None
        self._site_folders: Optional[SiteFolders] = None  # where these are copies
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        self._wake = read_end
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the wait
        self.log = Log(folder.log_file, Server(self.request))
        self._limit = OutputLimit.of_request(self.request)
        self._steps = StepsFile(os.path.join(folder.beat_folder, STEPS), self.log)
        self._usage = Usage(self.log)
        server = Server(self.request)
        self.lease = Lease(self.request.get("lease"), lambda wait: server.post("beat", b"", wait), self._asked_to_stop)

    def supervise(self) -> None:
        """Run the program to its end, whatever that is."""
        try:
            # 1. The packages and the environment.
            self.lease.start()
            self._tell(seen="STARTING")
            command, environment = self._prepare()
            # 2. Where everybody is. Nobody starts before all addresses are known.
            cluster = self._join()
            self.lease.wait_for_grant(self._must_stop)
            if self.lease.is_over:
                return self._end_cut_off()
            if not cluster or self._must_stop():
                return self._end(seen="FAILED", exit_code=143, message="stopped before it started")
            environment.update(wiring(self.request, cluster))
            # 3. The program, started again in place as often as its exits allow.
            ended = self._run(command, environment)
            if self._failure and self.request["hold_seconds"] and not self._must_stop() and not ended.was_stopped:
                self._hold(environment)
        except (CannotStart, Refused, OSError) as error:
            from .postmortem import examine_text

            if self.lease.is_over:
                return self._end_cut_off()
            if self._site_folders is not None:  # a run before this one may have written something
                self._site_folders.finish()
            self.log.write("service", f"cannot start: {error}")
            if own_archive.has_changed():  # what its sandbox shows of us was removed
                return self.end_damaged("and its program could not start")
            found = examine_text(str(error))
            state = "LOST" if isinstance(error, OSError) and error.errno in MAY_PASS else "FAILED"
            return self._end(seen=state, message=str(error), sign=found.sign, evidence=found.evidence)
        # 4. The outcome, after the last file and the last line of the log.
        unkept = self._site_folders.finish() if self._site_folders is not None else ""
        self._say(self._work.tidy())
        if self.lease.is_over and (ended.was_stopped or ended.code != 0):
            return self._end_cut_off()
        if ended.was_stopped and not self.folder.should_stop():
            # Somebody else told us to stop, such as a machine that shuts down: whatever the program says, it is not done.
            return self._end(seen="FAILED", exit_code=143, message="it was stopped from outside")
        if unkept:
            self._say(f"what it has written is not all kept at the site: {unkept}")
        if ended.code == 0 and unkept:
            return self._end(
                seen="FAILED", exit_code=1, message=f"It ended with 0, but not all that it wrote is kept: {unkept}"
            )
        if ended.code == 0:
            from .postmortem import UNSEEN, unverified

            why = unverified(self.request, self.folder.beat_folder)
            if why:
                return self._end(
                    seen="FAILED", exit_code=1, message=f"It ended with 0, but {why}", sign=UNSEEN, evidence=why
                )
            return self._end(seen="SUCCEEDED", exit_code=0)
        if own_archive.has_changed():  # the program reads of it, too, and may have failed by it
            return self.end_damaged("and the program failed")
        self._end(seen="FAILED", **self._failure)

    def end_damaged(self, consequence: str) -> None:
        """End what failed for no fault of its program's: it is started again, with a runtime that is whole."""
        complain(f"the runtime has been damaged, {consequence}")
        self._end(seen="LOST", message=f"the runtime was damaged while this ran, {consequence}")

    def _prepare(self) -> "tuple[List[str], Dict[str, str]]":
        """The command and the environment, but for what depends on the cluster."""
        for folder in (self.folder.work, self.folder.beat_folder):
            os.makedirs(folder, exist_ok=True)
        if "isolate" in self.request:  # this machine looks for itself what it can do
            from .isolation import find_here

            self.request["isolation"] = find_here(**self.request["isolate"])
            self.sandbox = Sandbox(self.request, self.folder)
        if any(self.request[what] for what in ("packages", "source", "requirements", "python_asked")):
            from .program_files import place_files  # brings archives and installers with it: only for who needs them

            placed = place_files(self.request, self.folder.work, self._must_stop, self._say, self.sandbox)
            self._site, self._made, self.request["python"] = placed
        self._work.begin()
        environment = variables_of_program(self.request, self.folder, self.sandbox, self._work.environment, self._site)
        self.sandbox.give(self.folder.work, self.folder.beat_folder, self._work.environment)
        if self.request.get("mirrors"):
            from .site_folders import SiteFolders

            self._site_folders = SiteFolders(
                self.request,
                self.folder.beat_folder,
                self._say,
                self.sandbox.user,
                self._tell_sending,
                lambda: self.lease.is_over,
            )
            environment.update(self._site_folders.bring(self._must_stop))
        return list(self.request["command"]), environment

    def _join(self) -> Cluster:
        """Reserve our ports and wait for everybody else's. A replica that is alone knows everybody already."""
        request = self.request
        addresses = [f"{request['host']}:{port}" for port in reserve(3, request["host"])]
        if request["is_alone"]:
            self._tell(seen="STARTING", addresses=addresses)
            return {} if self._must_stop() else {request["role"]: [addresses]}
        server = Server(request)
        try:
            return server.join(addresses, self._must_stop)
        except Refused as error:
            raise CannotStart(f"the server does not know this attempt any more: {error}") from error
        finally:
            server.close()

    def _run(self, command: List[str], environment: Dict[str, str]) -> Ended:
        limit = self.request["in_place"]
        ends = Ends()
        for restart in range(limit + 1):
            if self.lease.is_over:
                return Ended(-signal.SIGKILL, was_stopped=True, out_of_memory=False)
            environment["STOKER_RESTART_COUNT"] = str(self.request["number"] - 1 + restart)
            program = self._program = self._start(command, environment)
            self._tell(seen="UP", program_pid=program.pid)
            self._watch = None
            ended = program.wait(self._must_stop_or_is_quiet, self._wake, self.request["grace_seconds"])
            self._steps.pass_on()
            if self._work.excess:
                self._failure = self._work.failure(self._exit_code(ended))
                break
            if ended.code == 0:
                break
            may_restart, code = self._may_restart(ended, program.pid), self._exit_code(ended)
            place = " | ".join(lines[-1] for lines in (self.log.last_output, self.log.last_errors) if lines)
            ends.add(End(code, self._failure["sign"], time.monotonic() - self._started_at, place))
            self._failure.update(place=place_of(place), alike=ends.alike)
            if not may_restart or ended.was_stopped:
                break
            from .postmortem import is_effect

            if ends.alike >= MOST_ALIKE and self.request["ends_early"] and not is_effect(self._failure["sign"]):
                self._say(f"exited with status {code}, and is not started again: {ends.pattern()}")
                self._failure["message"] += f" It is not started again: {ends.pattern()}."
                break
            if restart < limit:
                self._tell(seen="UP", restarts=restart + 1)  # at once: its peers may fail because of it
                self._say(f"exited with status {code} and is started again in place ({restart + 1} of {limit})")
                self._pause(min(60.0, 0.5 * 2 ** min(restart + 2 * self.request["failures"], 10)))
        return ended

    def _must_stop_or_is_quiet(self) -> bool:
        """Asked several times a second while the program runs: whether it must stop. Tells of steps, use and a standstill."""
        self._steps.pass_on()
        self._usage.pass_on()
        if not self._work.excess and self._work.holds_too_much() and self._program is not None:
            self._say(f"it is ended: {self._work.excess}")
            self._program.kill()  # at once: in the grace it would write on
        if os.path.exists(self.folder.ask_file):
            self._look_for_questions()
        if self.request["hang_seconds"]:
            if self._watch is None and time.monotonic() - self._started_at > _STARTING_SECONDS:
                from .hang import Watch  # not before the program has long been started

                self._watch = Watch(self.request["hang_seconds"], self.log, self.folder.beat_file, self._pids)
            is_quiet = self._watch.look() if self._watch is not None else None
            if is_quiet is not None:
                self._tell_of_quiet(is_quiet)
        return self._must_stop()

    def _look_for_questions(self) -> None:
        from .questions import Questions  # not before somebody asks

        if self._questions is None:
            ask_file, beat_folder = self.folder.ask_file, self.folder.beat_folder
            self._questions = Questions(ask_file, beat_folder, self.log, self._names()[2], self._pids)
        self._questions.look()

    def _tell_of_quiet(self, is_quiet: bool) -> None:
        """Say that the program stands still, or goes on again. What follows from it, the server decides: peers may go on."""
        assert self._watch is not None
        if is_quiet:
            evidence = self._watch.evidence()
            self._say("\n".join([f"it seems to hang: {evidence}", *self._watch.describe()]))
            self._watch.heard_ourselves()
            self._tell(seen="UP", standing="QUIET", evidence=evidence)
        else:
            self._tell(seen="UP", standing="", evidence="")

    def _hold(self, environment: Dict[str, str]) -> None:
        """Keep the place of a program that has failed for somebody who wants to look."""
        from .hold import Place

        seconds, (job, _, name) = self.request["hold_seconds"], self._names()
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))
        self._say(f"it failed with status {self._failure['exit_code']}; its place is kept until {until}")
        self._say(f"look at it: stoker jobs shell {job} --replica {name}; give it back: stoker jobs release {job}")
        self._tell(seen="UP", standing="HELD", **self._failure)
        place = Place(self.folder, self.sandbox, environment, self._readable(), self.request["python"])
        is_over = place.keep(seconds, self._must_stop, self._wake)
        self._say("its place is given back" + (": the time is over" if is_over else ""))

    def _names(self) -> "tuple[str, str, str]":
        """The job, the attempt's number and the replica, as a user names them."""
        job, _, number = self.request["attempt"].rpartition("/")[2].rpartition(".")
        return job, number, f"{self.request['role']}-{self.request['index']}"

    def _start(self, command: List[str], environment: Dict[str, str]) -> Program:
        self.log.last_errors.clear()  # the last words of an earlier run are not this one's
        self.log.last_output.clear()
        self._kernel = Kernel()
        self._failure = {}
        self._started_at = time.monotonic()
        try:
            return Program(
                command, environment, self.folder.work, self.log, self.sandbox, self._readable(), self._limit
            )
        except FileNotFoundError:
            raise CannotStart(f"there is no program {command[0]!r} on this machine") from None
        except PermissionError:
            raise CannotStart(f"{command[0]!r} may not be executed") from None

    def _readable(self) -> List[str]:
        """Of Stoker's own folders, what the program is to see."""
        return [path for path in (*self._made, own_archive.PATH) if path]

    def _pids(self) -> List[int]:
        """The ids of the program's processes."""
        own = self.sandbox.own_processes
        return [process.pid for process in descendants() if process.pid not in own]

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._must_stop():
            time.sleep(0.05)

    def _must_stop(self) -> bool:
        return self._stop_asked or self.lease.is_over or self.folder.should_stop()

    def _asked_to_stop(self, *_: object) -> None:
        self._stop_asked = True

    def _say(self, line: str) -> None:
        for part in line.splitlines():
            self.log.write("service", part)

    def _tell(self, **news: Any) -> None:
        """Write to disk what is new, then ship it."""
        self._status.update(news, at=time.time(), last_line=self.log.last_number)
        self._write_status()
        self.log.report(dict(self._status))

    def _tell_sending(self, now: float) -> None:
        self._tell(sent_at=now)

    def _write_status(self) -> bool:
        """Never before the lines that it counts, for who reads it takes those from the disk. Returns whether there was room."""
        if not self.log.is_on_disk():
            return False
        try:
            self.folder.write_status(self._status)
        except OSError as error:  # a full disk: the server hears of it all the same
            complain(f"the status cannot be written: {error}")
            return False
        return True

    def _end(self, **news: Any) -> None:
        """The final status has to be on disk or with the server: an end that nobody knows would be taken for a loss."""
        self._tell(**news)
        while not (self.log.has_told or self._write_status()):
            time.sleep(_FULL_DISK_SECONDS)
        self.log.drain(DRAIN_SECONDS)

    def _end_cut_off(self) -> None:
        self._say(f"the lease is over: {self.lease.why}")
        self._end(seen="LOST", sign=LEASE_OVER, message=self.lease.why)

    def _exit_code(self, ended: Ended) -> int:
        return shown_exit_code(ended.code, is_container=self.request["is_container"])

    def _may_restart(self, ended: Ended, pid: int) -> bool:
        """Look into a failure, and say whether the program may be started again in place."""
        from .postmortem import examine, is_out_of_memory, last_words, may_restart_in_place  # only for who failed

        devices = self.request["visible_devices"]
        found = examine(ended, self.log, self._kernel, pid, devices, self.folder.work, self.sandbox)
        out_of_memory, code = is_out_of_memory(found), self._exit_code(ended)
        self._failure = {
            "exit_code": code,
            "message": last_words(self.log, ended, out_of_memory=out_of_memory),
            "out_of_memory": out_of_memory,
            "sign": found.sign,
            "evidence": found.evidence,
        }
        if exit_class(code, out_of_memory) != RESTARTABLE or not may_restart_in_place(found):
            return False
        is_in_step = os.path.exists(os.path.join(self.folder.beat_folder, IN_STEP)) and not self.request["is_alone"]
        if is_in_step and not ended.was_stopped and self.request["in_place"]:
            self._say(f"exited with status {code}: it trained in step with others, and is not started again alone")
        return not is_in_step


def main(path: str) -> int:
    """Supervise the replica of this folder, unless somebody else does, or it has ended, or may not start."""
    folder = Folder(path)
    if folder.lock() is None:
        return 0
    with open(folder.pid_file, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    if folder.read_status() or folder.should_stop():
        return 0  # our predecessor got this far: a program is never started twice in one attempt
    os.chdir("/")
    become_reaper()
    supervisor = Supervisor(folder)
    try:
        supervisor.supervise()
    except Exception as error:
        if own_archive.has_changed() or isinstance(error, ImportError):
            supervisor.end_damaged(f"and a part of it cannot be read any more: {error}")
            return 1
        complain(f"the supervisor failed: {error!r}")
        supervisor._end(seen="FAILED", message=f"the supervisor failed: {error!r}")
        raise
    return 0
