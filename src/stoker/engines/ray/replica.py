"""What runs on a Ray node for one replica: an actor that starts the supervisor beside it, and tells how it ended.

Stoker is not installed there: this file is sent as it is, and needs nothing but Python's library and Ray. The supervisor
(runtime/) comes along as a zipapp. It ships its lines and reports to Stoker's server by itself, as everywhere; the actor is the
engine's hand.

A head of Ray's that is started anew knows no nodes, and they may not notice: they run on, of no cluster. Nobody can reach what is
there then, nor see that the machine is in use. So the actor looks whether its cluster still is, and ends with it.

The supervisor is a child in the process group of Ray's worker, which Ray kills with it, and, where the system allows it, in a PID
namespace of its own: what is in there ends with the supervisor, also what has left its group.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any

_FINAL = ("SUCCEEDED", "FAILED", "LOST")
_LOOK_SECONDS = 0.05
_CLUSTER_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_LAST_WORDS = 500
_LINES_AT_ONCE = 5000
_SENDING_SECONDS = 20.0  # so long after the last block was sent
_LEFT_SECONDS = 7 * 86_400.0
FOLDERS = "folders"  # of an attempt: copies of the site's
FOLDER_VARIABLE = "STOKER_NODE_FOLDER"  # of a node that Stoker has set up: where all of this lies


class Replica:
    """One replica's place on its node."""

    def __init__(self, words: dict[str, Any], runtime: bytes) -> None:
        """`words`: what the supervisor is told. `runtime`: the zipapp. Raises OSError."""
        own = os.environ.get(FOLDER_VARIABLE) or os.path.join(tempfile.gettempdir(), f"stoker-{os.getuid()}")
        self._base = os.path.join(own, words["home"])
        self._attempt = os.path.join(self._base, "runs", *words["attempt"].split("/"))
        self._folder = os.path.join(self._attempt, f"{words['role']}-{words['index']}")
        self._stop_file = os.path.join(self._attempt, "stop")
        self._server_file = os.path.join(self._folder, "server-url")
        self._child: subprocess.Popen[bytes] | None = None
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        sweep(os.path.join(self._base, "runs"), self._attempt)
        program = os.path.join(self._folder, "runtime.pyz")
        _write(program, runtime)
        os.chmod(program, 0o644)  # programs of other users load parts of it
        self.be_found_at(words["server_url"])
        _write(os.path.join(self._folder, "request.json"), json.dumps(self._request(words)).encode())
        with open(os.path.join(self._folder, "supervisor.err"), "ab") as errors:
            command = [*own_processes(), sys.executable, "-I", "-S", program, self._folder]
            environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}  # Stoker says which
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=environment
            )
        threading.Thread(target=self._end_with_cluster, args=(self._child,), daemon=True).start()

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """Until it has ended, or for so long. Returns its last status; {"lost": why} if it left none; None: it goes on."""
        assert self._child is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            has_exited = self._child.poll() is not None  # asked before the status is read
            status = self.status()
            if status.get("seen") in _FINAL:
                return status
            if has_exited:
                return {**status, "lost": self._last_words() or "its supervisor is gone"}
            time.sleep(_LOOK_SECONDS)
        return None

    def status(self) -> dict[str, Any]:
        """What the supervisor last knew; empty if it has not said anything yet."""
        try:
            with open(os.path.join(self._folder, "status.json"), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def stop(self, force: bool) -> None:
        """Have it end: its program gets the grace; or at once, with everything that it has started."""
        with suppress(FileNotFoundError):  # it was tidied up
            open(self._stop_file, "ab").close()
        if force and self._child is not None:
            threading.Thread(target=self._kill, args=(self._child,), daemon=True).start()

    def _kill(self, child: "subprocess.Popen[bytes]") -> None:
        """End it, unless its program has ended and its last files are on their way: then as soon as they stand still."""
        while child.poll() is None and time.time() - self.status().get("sent_at", 0.0) < _SENDING_SECONDS:
            time.sleep(_LOOK_SECONDS)
        child.kill()

    def ask(self, request: dict[str, Any]) -> None:
        """Put a request where the supervisor finds it."""
        _write(os.path.join(self._folder, "ask.json"), json.dumps(request).encode())

    def lines(self, after: int) -> list[dict[str, Any]]:
        """The records of its log after a number, some at a time."""
        found: list[dict[str, Any]] = []
        try:
            with open(os.path.join(self._folder, "log.jsonl"), "rb") as file:
                for line in file:
                    try:
                        record = json.loads(line)
                        n, t, s, m = int(record["n"]), float(record["t"]), str(record["s"]), str(record["m"])
                    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                        continue  # cut off by a crash, or the program wrote it
                    if n > after:
                        found.append({"n": n, "t": t, "s": s, "m": m.encode(errors="replace").decode()})
                    if len(found) == _LINES_AT_ONCE:
                        break
        except FileNotFoundError:
            pass
        return found

    def be_found_at(self, server_url: str) -> None:
        """Let it find the server there."""
        _write(self._server_file, server_url.encode())

    def tidy(self) -> None:
        """Nobody asks any more: the folder goes, with the last lines that its supervisor may still be shipping."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        if not any(
            entry.is_dir() and entry.name != FOLDERS for entry in os.scandir(self._attempt)
        ):  # the last one here
            shutil.rmtree(self._attempt, ignore_errors=True)

    def _end_with_cluster(self, child: "subprocess.Popen[bytes]") -> None:
        while is_in_cluster():
            time.sleep(_CLUSTER_SECONDS)
        child.kill()
        child.wait()
        os._exit(1)

    def _request(self, words: dict[str, Any]) -> dict[str, Any]:
        """What the supervisor is told, with what only this node knows."""
        request = {
            key: v for key, v in words.items() if key not in ("home", "server_url", "folders", "mark", "isolate")
        }
        self._place_folders(request, words)
        if not os.path.exists(words["python"]):  # the server's own: here Ray's stands for it
            python = words["python"]
            request["python"] = sys.executable
            request["command"] = [sys.executable if word == python else word for word in request["command"]]
        beside = os.path.join(os.path.dirname(sys.executable), "uv")
        request["uv"] = beside if os.path.exists(beside) else shutil.which("uv") or "uv"
        request["server_file"] = self._server_file
        request["cache"] = os.path.join(self._base, "cache")
        return request

    def _place_folders(self, request: dict[str, Any], words: dict[str, Any]) -> None:
        """The site's folders that are on this machine as well are used as they are; of the others there is a copy."""
        moved: dict[str, str] = {}
        direct: list[str] = []
        at_home: list[str] = []
        home = words["mark"]["home"]
        for folder in words["folders"]:
            path = folder["path"]
            top = folder["shared"] or (home if is_here(path, words["mark"]) else "")
            if top:  # links above it are the admin's; below it no program's are followed
                (at_home if top == home else direct).append(os.path.realpath(top) + path[len(top.rstrip("/")) :])
            else:
                moved[path] = os.path.join(self._attempt, FOLDERS, str(folder["number"]))
        numbers = {folder["path"]: folder["number"] for folder in words["folders"]}
        request["mirrors"] = [{"number": numbers[path], "path": here} for path, here in moved.items()]
        request["command"] = [moved_text(word, moved) for word in words["command"]]
        request["env"] = {name: moved_text(value, moved) for name, value in words["env"].items()}
        request["isolate"] = {
            "asked": words["isolate"],
            "base": self._base,
            "own_folders": [*moved.values(), *at_home],
            "hidden": [home] if os.path.isdir(home) else [],
            "folders": [*direct, *map(os.path.realpath, filter(os.path.isdir, words["isolate"]["folders"]))],
        }

    def _last_words(self) -> str:
        try:
            with open(os.path.join(self._folder, "supervisor.err"), encoding="utf-8", errors="replace") as file:
                return file.read().strip()[-_LAST_WORDS:]
        except FileNotFoundError:
            return ""


def is_here(path: str, mark: dict[str, str]) -> bool:
    """Whether a folder of the server's home is on this machine, under the same path."""
    if not path.startswith(mark["home"].rstrip("/") + "/"):
        return False
    try:
        with open(mark["path"], encoding="utf-8") as file:
            return file.read() == mark["text"]
    except (OSError, ValueError):
        return False


def moved_text(text: str, moved: dict[str, str]) -> str:
    """A text with the folders of this machine in the place of those of the server's. `moved`: there → here."""
    for path in sorted(moved, key=len, reverse=True):
        here = moved[path].replace("\\", r"\\")
        text = re.sub(rf"(?<![\w/.-]){re.escape(path.rstrip('/'))}(?![\w.-])", here, text)
    return text


def sweep(runs: str, own: str) -> None:
    """Remove what attempts have left that ended while this machine was cut off: nobody has tidied up after them."""
    for project in _below(runs):
        for attempt in _below(project):
            with suppress(OSError):
                told = [os.path.join(replica, "status.json") for replica in _below(attempt)]
                newest = max(os.stat(path).st_mtime for path in (attempt, *filter(os.path.exists, told)))
                is_old = time.time() - newest > _LEFT_SECONDS
                if is_old and attempt != own and not any(_is_locked(replica) for replica in _below(attempt)):
                    shutil.rmtree(attempt, ignore_errors=True)


def _below(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_locked(replica: str) -> bool:
    """Whether a supervisor lives there (runtime/folder.py)."""
    try:
        with open(os.path.join(replica, "lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def is_in_cluster() -> bool:
    """Whether Ray's head still knows this node's cluster. One that does not answer may."""
    from ray._private.worker import global_worker
    from ray.exceptions import AuthenticationError

    try:
        global_worker.gcs_client.internal_kv_exists(b"stoker", None, timeout=_ANSWER_SECONDS)
    except AuthenticationError:  # it is of another cluster
        return False
    except Exception:
        return True
    return True


def own_processes() -> list[str]:
    """The words that give a command a PID namespace of its own; none where that is not allowed."""
    words = ["unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    try:
        works = subprocess.run([*words, "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        works = False
    return words if works else []


def _write(path: str, data: bytes) -> None:
    """Write a file whole: a reader sees all of it or none."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    os.replace(temporary, path)
