"""The folders of the site that a replica's program uses on a machine that does not have them: copies, kept in step.

Brought before the program begins; looked through while it runs, and what has changed is sent; at the end all of it. Where a
job has several replicas, what others have sent is brought as well. Stoker's own checkpoints go through a socket, and count when
the site has them (frameworks/checkpointing/site_file_system.py).
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .errors import CannotStart
from .mirror import Mirror, Traffic
from .server import Hindered, Refused, Server, Unacceptable, Unreachable
from .site_folder import SiteFolder, error_message
from .site_socket import SiteSocket

LOOK_SECONDS = 1.0
REFRESH_SECONDS = 3.0
_SENDING_SECONDS = 2.0
_SHARE = 20  # of the time between two looks, one part of so many is spent on looking
_SLOW_SECONDS = 60.0  # so long, and it is told that the link is slow
_TELL_SECONDS = 300.0
_AWAY_SECONDS = 20.0
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0
_STUCK_SECONDS = 60.0  # so long, at the end, newer files wait for an older one that the site does not take
_UNREADABLE = "some of it cannot be read on this machine"
_MOST_STUCK_SECONDS = 900.0  # and so long in all, while nothing can be sent


class SiteFolders:
    """The folders of one replica."""

    def __init__(
        self,
        request: Dict[str, Any],
        beat_folder: str,
        say: Callable[[str], None],
        user: Optional[int],
        tell: Callable[[float], None],
        is_over: Callable[[], bool],
    ) -> None:
        """`request["mirrors"]`: [{number, path}] of the launch's folders that are copied here.

        `tell` is called with the time, now and then, while the last files are sent: who waits for our end sees that we go on.
        `is_over`: whether the attempt may send nothing more.
        """
        self._asked: List[Dict[str, Any]] = request["mirrors"]
        self._is_alone: bool = request["is_alone"]
        self._say, self._tell_sending, self._is_over = say, tell, is_over
        self._traffic = Traffic(progress=self._progress)
        self._ending_since = self._told_sending_at = 0.0  # 0: the program runs
        self._mirrors = [
            Mirror(one["path"], SiteFolder(Server(request), one["number"]), self._traffic, self._say_refused, user=user)
            for one in self._asked
        ]
        self._socket = SiteSocket(beat_folder, request, user)
        self._is_ending = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._told_at: Dict[str, float] = {}
        self._away_since: Optional[float] = None
        self._looked_through: Dict[Mirror, float] = {}
        self._refreshed_at: Dict[Mirror, float] = {}

    def bring(self, give_up: Callable[[], bool]) -> Dict[str, str]:
        """Have all of it here, and keep it in step from now on. Raises OSError for a full disk, CannotStart, Refused.

        Returns the variables by which Stoker's own code in the program finds the way to the site.
        """
        for mirror in self._mirrors:
            pause = _PAUSE_SECONDS
            while not give_up():
                if mirror.hold():
                    try:
                        if not mirror.is_there:  # another replica of this machine may have brought it
                            mirror.bring(self._tell_brought, give_up)
                        break
                    except Unreachable as error:
                        self._tell_away(error)
                    except Unacceptable as error:
                        raise CannotStart(
                            f"the job's directory cannot be brought here: {error_message(error)}"
                        ) from error
                    finally:
                        mirror.release()
                time.sleep(pause)
                pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
        self._away_since = None
        self._socket.start()
        self._thread = threading.Thread(target=self._keep, name="site-folders", daemon=True)
        self._thread.start()
        folders = os.pathsep.join(f"{one['number']}={one['path']}" for one in self._asked)
        return {"STOKER_SITE_FOLDERS": folders, "STOKER_SITE_SOCKET": self._socket.path}

    def finish(self) -> str:
        """The program has ended: send what is not there yet, as long as that goes on. Returns why not all is there."""
        if self._thread is None:
            return ""
        self._ending_since = self._told_sending_at = time.monotonic()
        self._is_ending.set()
        self._thread.join()
        self._socket.close()
        try:
            return "; ".join(filter(None, map(self._send_rest, self._mirrors)))
        except Refused as error:
            return error_message(error)
        finally:
            for mirror in self._mirrors:
                mirror.close()

    def _send_rest(self, mirror: Mirror) -> str:
        since, kept, why = time.monotonic(), self._traffic.kept_files, ""
        while not self._is_over():
            stands_still = time.monotonic() - since
            if mirror.hold():
                try:
                    if mirror.look(is_final=True, in_order=stands_still < _STUCK_SECONDS):
                        return ""
                    why = why or _UNREADABLE
                except Hindered as error:
                    why = error_message(error)
                    self._tell_away(error)
                except Unreachable as error:  # that is waited for: the lease says for how long
                    self._tell_away(error)
                    since = time.monotonic()
                except (Unacceptable, OSError) as error:
                    why = error_message(error)
                finally:
                    mirror.release()
            if self._traffic.kept_files != kept:
                since, kept = time.monotonic(), self._traffic.kept_files
            if stands_still > (_STUCK_SECONDS if why == _UNREADABLE else _MOST_STUCK_SECONDS):
                return why
            time.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS + stands_still / 10))
        return "the lease is over"

    def _keep(self) -> None:
        while not self._is_ending.wait(LOOK_SECONDS):
            for mirror in self._mirrors:
                try:
                    if mirror.hold():
                        self._look(mirror)
                        self._away_since = None
                except Refused:
                    return  # the attempt is over; who asks for its lease hears of it
                except Unreachable as error:
                    self._tell_away(error)
                except (OSError, Unacceptable) as error:
                    self._tell("disk", f"the files of the job are not kept in step just now: {error_message(error)}")
                finally:
                    mirror.release()

    def _look(self, mirror: Mirror) -> None:
        now = time.monotonic()
        if now < self._looked_through.get(mirror, 0.0):
            return
        mirror.look()
        if not self._is_alone and now >= self._refreshed_at.get(mirror, 0.0) + REFRESH_SECONDS:
            mirror.refresh()
            self._refreshed_at[mirror] = time.monotonic()
        took = time.monotonic() - now
        self._looked_through[mirror] = now + (_SHARE * took if took > LOOK_SECONDS / _SHARE else 0.0)

    def _progress(self) -> None:
        """Something was sent. At the end that is told, for somebody may be about to end us by force. Raises Refused."""
        if self._is_over():
            raise Refused("the lease is over")
        self._tell_slow()
        now = time.monotonic()
        if self._ending_since and now >= self._told_sending_at + _SENDING_SECONDS:
            if self._told_sending_at == self._ending_since:
                files, size = self._traffic.waiting_files, _bytes(self._traffic.waiting_bytes)
                self._say(f"sends what it has written to the site: {files} file(s), {size}")
            self._told_sending_at = now
            self._tell_sending(time.time())

    def _tell_brought(self, files: int, size: int) -> None:
        if files:
            self._say(f"brings {files} file(s) of the job's folders here from the site: {_bytes(size)}")

    def _tell_slow(self) -> None:
        rate, waiting = self._traffic.bytes_per_second, self._traffic.waiting_bytes
        if rate and waiting / rate > _SLOW_SECONDS:
            self._tell(
                "slow",
                f"the link to the site is slow: {self._traffic.waiting_files} file(s), {_bytes(waiting)}, wait to be sent at"
                f" {_bytes(rate)}/s, which takes {waiting / rate / 60:.0f} min; what is not there is lost with this machine",
            )

    def _tell_away(self, error: Exception) -> None:
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > _AWAY_SECONDS or isinstance(error, Hindered):
            self._tell(
                "away", f"the files of the job cannot be kept at the site, and wait here: {error_message(error)}"
            )

    def _say_refused(self, path: str, why: str) -> None:
        self._tell(f"refused {path}", f"{path} cannot be kept at the site and stays here: {why}")

    def _tell(self, what: str, line: str) -> None:
        """Say it, but not again and again."""
        now = time.monotonic()
        if now >= self._told_at.get(what, -_TELL_SECONDS) + _TELL_SECONDS:
            self._told_at[what] = now
            self._say(line)


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
