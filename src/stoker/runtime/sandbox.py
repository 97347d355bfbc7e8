"""What a program sees of the machine at isolation level 1 and above: a sandbox of bubblewrap, drawn up by one list of arguments.

The system and the user's files can be read, and only a few folders written to. Hidden are Stoker's home, whatever begins with
a dot in the user's home, and other processes. /tmp, /dev, /run and shared memory are the replica's own.
At level 2 the program runs as a user of its own as well. docs/security.md lists what follows from that.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set

from .folder import Folder, write_whole
from .interpreters import entries, homes_of, is_interpreter, links_to, which
from .mount_list import MountList
from .no_links import give_to
from .priority import be_program
from .processes import Process, started
from .seccomp import filter_for

_PASSED = frozenset(
    "PATH LANG LANGUAGE TZ TERM USER LOGNAME SHELL LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV CONDA_PREFIX"
    " HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy"
    " SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE".split()
)
_PASSED_PREFIXES = tuple(
    "LC_ CUDA NVIDIA_ NCCL_ GLOO_ OMP_ MKL_ OPENBLAS_ KMP_ TF_CPP_ TF_ENABLE_ TF_FORCE_ TF_GPU_ TF_NUM_ TF_XLA_ XLA_ JAX_"
    " TORCH PYTORCH_".split()  # of TF_, not all: Terraform keeps secrets there
)
_EMPTY = ("/tmp", "/var/tmp", "/run", "/dev/shm")
_KERNEL = tuple(f"/proc/{name}" for name in "sys sysrq-trigger irq bus fs asound mtrr pressure".split())
# What the kernel tells of the machine and of others, and container runtimes hide as well.
_TELLS_FILES = tuple(f"/proc/{name}" for name in "kcore keys timer_list timer_stats sched_debug latency_stats".split())
_TELLS_FOLDERS = (
    "/proc/acpi /proc/scsi /sys/firmware /sys/devices/virtual/powercap /sys/kernel/debug /sys/kernel/tracing".split()
)
_PATHS = re.compile(r"(?<![\w.:/])/[^'\":]+")  # as errors name them: to the closing quote, or to the colon
_GPU_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "dxg")
_ENV = "/usr/bin/env"
_LOADER = frozenset(
    {"GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "MALLOC_TRACE", "NLSPATH", "RESOLV_HOST_CONF"}
)


class _Namespace(NamedTuple):
    """The PID namespace of one sandbox. Its number is given again to others as soon as its first process has ended."""

    outermost: int
    first: int
    began: Optional[int]  # when the first process did
    number: Optional[int]


class Sandbox:
    """The surroundings of one replica's program."""

    def __init__(self, request: Mapping[str, Any], folder: Folder) -> None:
        asked = request.get("isolation") or {}
        self.level: int = asked.get("level", 0)
        self._asked: Mapping[str, Any] = asked
        self._request = request
        self._folder = folder
        self.user: Optional[int] = asked.get("user")
        self._namespaces: List[_Namespace] = []

    def passes(self, name: str) -> bool:
        """Whether a variable of the server's surroundings reaches the program."""
        return self.level == 0 or name in _PASSED or name.startswith(_PASSED_PREFIXES) or name in self._asked["inherit"]

    def variables(self) -> Dict[str, str]:
        """What a program finds in its environment because it is in a sandbox."""
        if self.level == 0:
            return {}
        own = {"HOME": self._asked["own_home"], "TMPDIR": "/tmp"}
        if self.user is not None:
            own.update(USER=f"job{self.user}", LOGNAME=f"job{self.user}")
        if not self._request["is_alone"]:
            # Replicas share no memory with each other, so NCCL must not take them for processes of one machine.
            own["NCCL_HOSTID"] = f"{self._request['attempt']}/{self._request['role']}-{self._request['index']}"
        return own

    def command(
        self,
        command: Sequence[str],
        mounts: MountList,
        *,
        work: str = "/",
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
        told: Optional[int] = None,
        variables: Sequence[str] = (),
    ) -> List[str]:
        """What to run in the place of a command. Raises OSError where a folder that is opened leads elsewhere now.

        `mounts`: an empty list, that is filled and has to live until bubblewrap has it. `told`: a file descriptor for what
        bubblewrap has to tell of the sandbox. `variables`: NAME=VALUE that are set for the command alone.

        What comes later lies over what came before: folders that are opened over what hides them, and Stoker's home over all
        but the replica's own.
        """
        if self.level == 0:
            return list(command)
        asked = self._asked
        mounts.words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *self._devices()]
        self._hide_kernel(mounts)
        for path in dict.fromkeys(map(os.path.realpath, _EMPTY)):
            if os.path.isdir(path):
                mounts.empty(path, mode="1777", most_bytes=asked.get("tmp_bytes", 0))
        hidden = list(self._hidden())
        for path in hidden:
            if os.path.isdir(path):
                mounts.empty(path)
            else:
                mounts.bind(os.devnull, at=path)
        python, files = self._request["python"], list(links_to(command[0]))
        is_users = python == self._request.get(
            "python_asked"
        )  # it may name anything: what lies there is shown if it is one
        homes = [] if is_users else [*homes_of(python)]
        for path in [*files, *(links_to(python) if is_users else ())]:
            above = os.path.dirname(os.path.dirname(path))
            is_whole = is_interpreter(path) and os.path.realpath(above) != os.path.realpath(asked["user_home"] or "/")
            homes += [os.path.join(above, "lib") if os.path.basename(above) == ".local" else above] if is_whole else []
        _bind(mounts, asked["folders"], is_writable=True)
        _bind(mounts, map(os.path.realpath, [*_name_service(), *homes]))
        for path in files:  # beside them may lie secrets
            if any(_is_in(path, above) for above in hidden) and not any(_is_in(path, home) for home in homes):
                mounts.bind(os.path.realpath(path), at=path)
        stoker_home = os.path.realpath(asked["stoker_home"])
        homes_of_stoker = [stoker_home, *(path for path in asked.get("hidden", ()) if path != stoker_home)]
        for path in homes_of_stoker:
            mounts.empty(path)
        _bind(mounts, map(os.path.realpath, readable))  # these and the last lie where no program can put a link
        _bind(mounts, [asked["own_home"], *asked["own_folders"]], is_writable=True)
        _bind(mounts, map(os.path.realpath, writable), is_writable=True)
        over = [*asked["folders"], *map(os.path.realpath, homes)]
        empty = [path for path in hidden if os.path.isdir(path) and not any(_is_in(path, above) for above in over)]
        for path in dict.fromkeys(
            [*empty, "/dev", *homes_of_stoker]
        ):  # nobody is to write to where nobody would find it again
            mounts.words += ["--remount-ro", path]
        calls = filter_for()
        options = ["--seccomp", str(mounts.input(calls))] if calls else []
        options += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--chdir", work]
        if told is not None:
            options += ["--info-fd", str(told)]
        if variables:
            command = [_ENV, *variables, *command]
        if self.user is not None:
            options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            command = [*as_user(asked["setpriv"], self.user), *command]
        mounts.end()
        return [asked["bwrap"], *mounts.words, *options, "--", *command]

    def start(self, words: "Callable[[MountList, int], List[str]]", **how: Any) -> "subprocess.Popen[Any]":
        """Start a command in the sandbox; at level 0, in none. `how`: for Popen. Raises OSError if one of both cannot be had.

        `words`: what to run, given the list of mounts and the descriptor by which bubblewrap tells of the sandbox.
        """
        mounts = MountList()
        told = -1
        try:
            tells = -1
            if self.level:
                told, tells = mounts.told()
            how.update(start_new_session=True, preexec_fn=self._before)
            process = subprocess.Popen(words(mounts, tells), pass_fds=mounts.descriptors, **how)
            mounts.close_inherited()
            if self.level:
                self._look(process, mounts, told)
            return process
        finally:
            if told >= 0:
                os.close(told)
            mounts.close()

    def _look(self, process: "subprocess.Popen[Any]", mounts: MountList, told: int) -> None:
        """See what bubblewrap has made before the command begins there. Raises OSError, and then nothing has begun."""
        try:
            mounts.check(process, self.note_namespace(told, process.pid))
        except BaseException:
            process.kill()  # all that is in it dies with it
            process.wait()
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                stream.close()
            raise

    def _before(self) -> None:
        """What a child does before it is the command, or bubblewrap, by which the command has it too."""
        be_program()
        if self._request.get("umask") is not None:
            os.umask(self._request["umask"])

    def _hide_kernel(self, mounts: MountList) -> None:
        """Root may write to the kernel's settings without any powers; and some of what the kernel tells is nobody's business."""
        for path in _KERNEL:
            mounts.words += ["--ro-bind-try", path, path]
        is_root = self.user is None and os.getuid() == 0
        for path in filter(os.path.exists, _TELLS_FILES):  # each takes a fifth of a millisecond
            if is_root or os.stat(path).st_mode & stat.S_IROTH:
                mounts.words += ["--ro-bind", os.devnull, path]
        for path in filter(os.path.isdir, _TELLS_FOLDERS):
            mounts.words += ["--perms", "0555", "--size", "4096", "--tmpfs", path]

    def give(self, *folders: str) -> None:
        """Make folders the program's own, with all that is in them, where it runs as a user of its own."""
        for folder in folders if self.user is not None else ():
            if os.path.isdir(folder):
                os.chmod(folder, 0o711)  # bubblewrap goes there before it is that user, and has no powers by then
                above, name = os.path.split(folder)
                give_to(os.path.join(os.path.realpath(above), name), self.user or 0)

    def show(self, *paths: str) -> None:
        """Let another user read what is the server's, where the program runs as one. The sandbox has to show it as well."""
        for path in paths if self.user is not None else ():
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)

    @property
    def whose(self) -> List[str]:
        """Whose the sandbox is: what is made in one with the owner's own `HOME` is not for others. Nobody's at level 0."""
        return [self._asked["owner"]] if self.level else []

    def program(
        self,
        command: List[str],
        environment: Mapping[str, str],
        work: str,
        readable: Sequence[str],
        mounts: MountList,
        *,
        told: int,
    ) -> List[str]:
        """What to run for the user's program. Raises OSError if that cannot be run, as starting it would without a sandbox."""
        if self.level == 0:
            return command
        path = command[0] if os.sep not in command[0] else os.path.join(work, command[0])
        found = which(path, environment.get("PATH", os.defpath))
        if found is None:
            raise PermissionError(path) if os.path.exists(path) and os.sep in path else FileNotFoundError(path)
        writable = [work, self._folder.beat_folder, os.path.join(self._folder.path, "environment")]
        mine = [f"{name}={value}" for name, value in environment.items() if _is_for_the_loader(name)]
        return self.command(
            [found, *command[1:]], mounts, work=work, readable=readable, writable=writable, told=told, variables=mine
        )

    def outer(self, environment: Mapping[str, str]) -> Dict[str, str]:
        """The environment of the sandbox itself: nothing by which a job could have its own code loaded into that."""
        return {name: value for name, value in environment.items() if not (self.level and _is_for_the_loader(name))}

    def code(self, code: int) -> int:
        """How the program ended, from how its sandbox did: bubblewrap says 128 + n for a death by signal n."""
        return 128 - code if self.level and 128 < code < 128 + signal.NSIG else code

    @property
    def needs_notes(self) -> bool:
        """Whether the processes have no mark that they cannot shed."""
        return self.level == 0 and not self._request.get("cgroup")

    def note_processes(self, processes: Iterable[Process]) -> None:
        """Write down by what the program's processes are known."""
        self._note({"processes": list(processes)})

    def note_namespace(self, told: int, outermost: int) -> int:
        """Note the one PID namespace of all, which bubblewrap has told: it lives as long as its first process.

        Returns that; 0 if bubblewrap has told nothing.
        """
        text = b"".join(iter(lambda: os.read(told, 4096), b""))
        if not text:
            return 0
        found = json.loads(text)
        first: int = found.get("child-pid", 0)
        own = _Namespace(outermost, first, started(first), found.get("pid-namespace"))
        self._namespaces = [*self._living(), own]
        self._note({"namespaces": [space[1:] for space in self._living()]})
        return first

    @property
    def own_processes(self) -> Set[int]:
        """What is of the sandboxes themselves: they wait for what runs in them."""
        return {pid for space in self._living() for pid in (space.outermost, space.first)}

    def _living(self) -> "List[_Namespace]":
        return [space for space in self._namespaces if space.began and started(space.first) == space.began]

    def _note(self, known: Mapping[str, Any]) -> None:
        try:
            write_whole(self._folder.processes_file, json.dumps(known))
        except OSError:
            pass  # a full disk must not end the training

    def keeps_from(self, sign: str, evidence: str) -> bool:
        """Whether a failure of this sign, shown by this line, is because of what a sandbox hides or does not let be written."""
        if self.level == 0:
            return False
        paths = [os.path.normpath(path.strip()) for path in _PATHS.findall(evidence)]
        if sign == "READ_ONLY":
            return not any(map(_is_read_only, paths))
        return sign in ("PERMISSION", "NO_SUCH_FILE") and any(map(self._hides, paths))

    def _hides(self, path: str) -> bool:
        """Whether a path is one that is hidden. What is there is not looked at, or programs could ask for it so."""
        asked, home = self._asked, os.path.realpath(self._asked["user_home"] or "/")
        shown = (*asked["folders"], *asked["own_folders"], asked["own_home"], self._folder.work)
        if any(_is_in(path, os.path.realpath(folder)) for folder in shown):
            return False
        for folder in _EMPTY:
            if _is_in(path, folder) and path != folder:  # of the machine's own such folders everybody sees the names
                return os.path.lexists(os.path.join(folder, path[len(folder) + 1 :].partition("/")[0]))
        of_user = home != "/" and (path.startswith(f"{home}/.") or (self.user is not None and _is_in(path, home)))
        return of_user or _is_in(path, os.path.realpath(asked["stoker_home"]))

    def _hidden(self) -> Iterator[str]:
        """Of the server's user: what begins with a dot in its home; for another user, all of its home."""
        home = os.path.realpath(self._asked["user_home"] or "/")
        if home != "/" and self.user is not None:
            yield home
        elif home != "/":
            found = [entry for entry in entries(home) if entry.name.startswith(".")]
            yield from (entry.path for entry in found if not entry.is_symlink())
            targets = [os.path.realpath(entry.path) for entry in found if entry.is_symlink()]
            yield from (path for path in dict.fromkeys(targets) if path.startswith(f"{home}/") and os.path.exists(path))

    def _devices(self) -> List[str]:
        """The leased GPUs' device files and those by which all are steered; none without a GPU."""
        visible = [name for name in self._request["visible_devices"].split(",") if name]
        if not visible:
            return []
        files = [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
        minors = _minors()
        if all(name in minors for name in visible):  # a part of a GPU (MIG) is not listed there: then all are shown
            files = [f"/dev/nvidia{minors[name]}" for name in visible]
        files += [f"/dev/{name}" for name in _GPU_CONTROL]
        return [word for file in files for word in ("--dev-bind-try", file, file)]


def _is_for_the_loader(name: str) -> bool:
    """Whether a variable tells the system's loader or C library to load something into whatever is started (ld.so(8))."""
    return name.startswith("LD_") or name in _LOADER


def as_user(setpriv: str, user: int) -> List[str]:
    """What runs a command as another user, for good."""
    return [setpriv, f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--"]


def _name_service() -> Iterator[str]:
    """Where host names are looked up, if that is kept in /run."""
    real = os.path.realpath("/etc/resolv.conf")
    if real.startswith("/run/"):
        yield real


def _bind(mounts: MountList, paths: Iterable[str], *, is_writable: bool = False) -> None:
    """Show these, once each; what is not there is left out, and so is what is shown anyway. Raises OSError for links."""
    for path in dict.fromkeys(paths):
        if path not in ("/", "/usr") and os.path.lexists(path):
            above = os.path.dirname(path)
            mounts.words += ["--perms", "0755", "--dir", above] if above != "/" else []  # another user is to get there
            mounts.bind(path, is_writable=is_writable)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_read_only(path: str) -> bool:
    """Whether a path lies on a file system that nobody can write to, in a sandbox or out of it."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _minors() -> Dict[str, int]:
    """A GPU's UUID → the number of its device file, as the driver tells it."""
    found: Dict[str, int] = {}
    for entry in entries("/proc/driver/nvidia/gpus"):
        with open(os.path.join(entry.path, "information"), encoding="ascii", errors="replace") as file:
            told = dict(line.split(":", 1) for line in file if ":" in line)
        try:
            found[told["GPU UUID"].strip()] = int(told["Device Minor"])
        except (KeyError, ValueError):
            continue
    return found
