"""A client of one server. Every method is one request; refusals come back as the errors that the server raised."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from stoker.core import errors as e

from .paths import file_path, job_path, node_path, project_path
from .refusals import raise_refusal
from .transport import Transport

_BLOCK_BYTES = 1 << 20


class Client(Transport):
    """Talks to a server."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the server is on this machine, as far as its address tells: paths of here are paths of there then."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    def runs_here(self) -> bool:
        """Whether every program runs on this machine: the server is here, and has no other machines."""
        return self.is_on_this_machine and bool(self.status()["engines"] == ["local"])

    def status(self) -> Any:
        """What the server is and has."""
        return self._call("GET", "/stoker/v1/status")

    def settings(self) -> list[dict[str, Any]]:
        """The server's settings, with where each comes from."""
        return self._list("/stoker/v1/settings", "settings")

    def shutdown(self) -> Any:
        """End the server."""
        return self._call("POST", "/stoker/v1/shutdown")

    def create_token(self, body: Mapping[str, Any]) -> Any:
        """Make a user's token; its text is told this once."""
        return self._call("POST", "/stoker/v1/tokens", body)

    def tokens(self) -> list[dict[str, Any]]:
        """The users' tokens, without their text."""
        return self._list("/stoker/v1/tokens", "tokens")

    def revoke_token(self, name: str) -> None:
        """Make a user's token worth nothing."""
        self._call("DELETE", f"/stoker/v1/tokens/{quote(name, safe='')}")

    def alerts(self, *, everyone: bool = False) -> list[dict[str, Any]]:
        """The rules of alerts of this user, or of all, and what became of what they told."""
        return self._list("/stoker/v1/alerts", "rules", everyone=everyone)

    def add_alert(self, body: Mapping[str, Any]) -> Any:
        """Add a rule of alerts; a webhook's secret is in the answer, this once."""
        return self._call("POST", "/stoker/v1/alerts", body)

    def test_alert(self, name: str, *, owner: str = "") -> Any:
        """Send a message by a rule now; tells what came back."""
        return self._call(
            "POST", f"/stoker/v1/alerts/{quote(name, safe='')}:test", {}, params={"owner": owner}, timeout=60.0
        )

    def remove_alert(self, name: str, *, owner: str = "") -> None:
        """Remove a rule of alerts."""
        self._call("DELETE", f"/stoker/v1/alerts/{quote(name, safe='')}", params={"owner": owner})

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, with what is free on them."""
        return self._list("/stoker/v1/nodes", "nodes")

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs of all machines that are sampled, as they were seen last."""
        return self._list("/stoker/v1/gpus", "gpus")

    def overview(self, points: int = 0) -> Any:
        """What the site does at this moment: machines, GPUs, running jobs; with so many points of the last five minutes."""
        return self._call("GET", "/stoker/v1/overview", params={"points": points})

    def choose(self, project: str, **asked: Any) -> Any:
        """Which hardware a training needs: parameters="350M", batch=64, memory="20GB", task, budget, job … (docs/choose.md)."""
        return self._call("GET", f"/stoker/v1/{project_path(project)}/choose", params=asked)

    def pools(self) -> list[dict[str, Any]]:
        """The pools of machines that are ordered when a job needs them."""
        return self._list("/stoker/v1/pools", "pools")

    def costs(self, since: float = 0.0, project: str = "") -> Any:
        """What jobs have cost since a moment (0: the beginning of this month, UTC), by day, and the budgets of projects."""
        return self._call("GET", "/stoker/v1/costs", params={"since": since, "project": project})

    def node(self, name: str) -> Any:
        """One node."""
        return self._call("GET", node_path(name))

    def node_health(self, name: str) -> Any:
        """The checks of a machine and of its GPUs, as they are now."""
        return self._call("GET", f"{node_path(name)}/health")

    def node_samples(self, name: str, *, metrics: str = "", since: float = -3600.0, points: int = 120) -> Any:
        """What a machine and each of its GPUs showed. `since`: a moment, or so many seconds ago if it is negative."""
        params = {"metrics": metrics, "since": since, "points": points}
        return self._call("GET", f"{node_path(name)}/samples", params=params)

    def cordon(self, name: str, *, why: str = "") -> Any:
        """Give a node nothing new; what runs there runs on."""
        return self._call("POST", f"{node_path(name)}:cordon", {"why": why})

    def drain(self, name: str, *, why: str = "", within_seconds: float = 0.0) -> Any:
        """Give a node nothing new, and have it empty by then: what still runs there is asked to stop, and goes on elsewhere."""
        return self._call("POST", f"{node_path(name)}:drain", {"why": why, "within_seconds": within_seconds})

    def uncordon(self, name: str) -> Any:
        """Give a node work again."""
        return self._call("POST", f"{node_path(name)}:uncordon", {})

    def queue(self, project: str = "", limit: int = 50) -> Any:
        """Who waits, in order, and how the queues stand. `project`: only its jobs."""
        return self._call("GET", "/stoker/v1/queue", params={"project": project, "limit": limit})

    def submit(self, project: str, body: Mapping[str, Any], *, rehearse: bool = False) -> Any:
        """Submit an AI Platform v1 Job; as a rehearsal, on virtual nodes made for it."""
        path = f"/stoker/v1/{project_path(project)}/jobs:rehearse" if rehearse else f"/v1/{project_path(project)}/jobs"
        return self._call("POST", path, body)

    def run(self, project: str, body: Mapping[str, Any]) -> Any:
        """Submit a plain command."""
        return self._call("POST", f"/stoker/v1/{project_path(project)}/jobs:run", body)

    def dry_run(self, project: str, body: Mapping[str, Any], *, uploads: Sequence[str] = (), **asked: bool) -> Any:
        """What would come of an AI Platform v1 Job. `uploads`: packages that would be uploaded first. rehearse, outlook: bool."""
        params = {"uploads": ",".join(uploads), **asked}
        return self._call("POST", f"/stoker/v1/{project_path(project)}/jobs:dryRun", body, params=params)

    def dry_run_command(self, project: str, body: Mapping[str, Any], *, outlook: bool = True) -> Any:
        """What would come of a plain command. Without `outlook` it is checked only whether it would be refused."""
        params = {"outlook": outlook}
        return self._call("POST", f"/stoker/v1/{project_path(project)}/jobs:dryRunCommand", body, params=params)

    def job(self, project: str, name: str) -> Any:
        """A job as AI Platform v1 shows it."""
        return self._call("GET", f"/v1/{job_path(project, name)}")

    def details(self, project: str, name: str) -> Any:
        """A job in Stoker's own words."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}")

    def jobs(self, project: str, limit: int = 20) -> list[dict[str, Any]]:
        """The newest jobs, newest first; 1000 at most."""
        return self._list(f"/stoker/v1/{project_path(project)}/jobs", "jobs", limit=limit)

    def all_jobs(self, project: str, *, page: int = 100, filter: str = "") -> Iterator[dict[str, Any]]:
        """Every job that passes, newest first, asked for page by page as they are taken. filter: in gcloud's language."""
        return self._pages(f"/stoker/v1/{project_path(project)}/jobs", "jobs", "before", page, filter=filter)

    def live_jobs(self) -> list[dict[str, Any]]:
        """What waits or runs, of every project."""
        return self._list("/stoker/v1/jobs", "jobs")

    def history(self, since: float) -> Any:
        """What the site has done since a moment (seconds since 1970): its rules, machines and jobs, to replay them."""
        return self._call("GET", "/stoker/v1/history", params={"since": since})

    def story(self, project: str, name: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """All that happened to a job after a position, asked for page by page as it is taken."""
        return self._pages(f"/stoker/v1/{job_path(project, name)}/story", "story", "after", 1000, after or None)

    def explain(self, project: str, name: str) -> Any:
        """Why a job waits, or how it ended."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/explain")

    def metrics(self, project: str, name: str) -> Any:
        """What a job took so far."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/metrics")

    def job_samples(self, project: str, name: str, *, attempt: int = 0, metrics: str = "", points: int = 120) -> Any:
        """What the GPUs of a job showed while it held them."""
        params = {"attempt": attempt, "metrics": metrics, "points": points}
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/samples", params=params)

    def steps(self, project: str, name: str, *, attempt: int = 0, points: int = 120) -> Any:
        """How a job trains."""
        query = urlencode({"attempt": attempt, "points": points})
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/steps?{query}")

    def findings(self, project: str, name: str) -> Any:
        """What is wrong with how a job trains, and what would help."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/findings")

    def goodput(self, project: str, name: str) -> Any:
        """What became of every second for which a job held its machines."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/goodput")

    def site_goodput(self, **asked: Any) -> Any:
        """The same of many jobs together: since, until (seconds since 1970), by, project, queue."""
        return self._call("GET", "/stoker/v1/goodput", params=asked)

    def ask_for_profile(self, project: str, name: str, seconds: float) -> Any:
        """Have every replica of a job looked into; returns the id, by which `profile` tells what was found."""
        return self._call("POST", f"/stoker/v1/{job_path(project, name)}:profile?{urlencode({'seconds': seconds})}")

    def rehearse_again(self, project: str, name: str, copy: str, job_dir: str) -> Any:
        """Run a job's program again as a rehearsal of another name; returns that in full."""
        asked = urlencode({"copy": copy, "job_dir": job_dir})
        return self._call("POST", f"/stoker/v1/{job_path(project, name)}:rehearse?{asked}")

    def interrupt(self, project: str, name: str, signal: str, replica: str = "") -> Any:
        """Send TERM or KILL to the program of a running job, on one replica or on all."""
        asked = urlencode({"signal": signal, "replica": replica})
        return self._call("POST", f"/stoker/v1/{job_path(project, name)}:interrupt?{asked}")

    def profile(self, project: str, name: str, number: str) -> Any:
        """What was found of a job's processes so far."""
        return self._call("GET", f"/stoker/v1/{job_path(project, name)}/profiles/{quote(number, safe='')}")

    def artifacts(self, project: str, name: str, *, page: int = 1000) -> Iterator[dict[str, Any]]:
        """The files below a job's directory, asked for page by page as they are taken."""
        return self._pages(f"/stoker/v1/{job_path(project, name)}/artifacts", "artifacts", "after", page)

    def cancel(self, project: str, name: str) -> None:
        """Want a job to stop."""
        self._call("POST", f"/v1/{job_path(project, name)}:cancel", {})

    def release(self, project: str, name: str) -> Any:
        """Give back the places that are kept after a failure."""
        return self._call("POST", f"/stoker/v1/{job_path(project, name)}:release", {})

    def relabel(self, project: str, name: str, labels: Mapping[str, str]) -> Any:
        """Replace a job's labels."""
        path = f"/v1/{job_path(project, name)}"
        return self._call("PATCH", path, {"labels": dict(labels)}, params={"updateMask": "labels"})

    def stream(
        self,
        project: str,
        name: str,
        *,
        logs: bool = True,
        follow: bool = True,
        after: int = 0,
        seconds: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """What happens to a job, as it happens (see api/stream.py). Goes on where it was if the server is restarted.

        While it is away, `{"kind": "cut", "message": …}` is told once. Raises Unavailable if it stays away. `seconds`: it ends
        after so long, without an `end`.
        """
        path, params = f"/stoker/v1/{job_path(project, name)}/stream", {"logs": logs, "follow": follow}
        return self._resumed(path, params, after=after, seconds=seconds)

    def logs(
        self, project: str, name: str, *, follow: bool = False, after: int = 0, replica: str = "", stream: str = ""
    ) -> Iterator[dict[str, Any]]:
        """What a job printed after a sequence, and with `follow` how it ended. Goes on where it was, as `stream` does."""
        wanted = {key: text for key, text in (("replica", replica), ("stream", stream)) if text}
        return self._resumed(f"/stoker/v1/{job_path(project, name)}/logs", {"follow": follow, **wanted}, after=after)

    def exists(self, uri: str) -> bool:
        """Whether the server has a file."""
        try:
            self._request("HEAD", file_path(uri))
        except e.NotFound:
            return False
        return True

    def upload(self, path: Path, uri: str, progress: Callable[[int], None] = lambda _: None) -> None:
        """Send a file, in constant memory. `progress` is told the bytes sent so far."""

        def blocks() -> Iterator[bytes]:
            sent = 0
            with open(path, "rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
                    sent += len(block)
                    progress(sent)

        forever = httpx.Timeout(None, connect=5.0)  # the server answers when it is safe on its disk
        self._call("PUT", file_path(uri), content=blocks(), timeout=forever)

    def download(self, uri: str) -> bytes:
        """A small file, whole."""
        return self._request("GET", file_path(uri)).content

    def save(self, uri: str, path: Path) -> None:
        """Download a file, in constant memory: it is there when it is whole. Raises NotFound, and BadSpec for a bad path."""
        part = path.with_name(f".{os.urandom(8).hex()}.part")  # of this download alone
        try:
            with self._http.stream("GET", file_path(uri)) as answer, open(part, "xb") as file:
                if answer.status_code >= 400:
                    answer.read()
                    raise_refusal(answer)
                for block in answer.iter_bytes(_BLOCK_BYTES):
                    file.write(block)
            part.replace(path)
        except httpx.RequestError as error:
            raise self._unreachable(error) from None
        except OSError as error:
            found = e.Violation("to", f"{path} cannot be written: {error.strerror or error}")
            raise e.BadSpec([found], fix="name a folder that is there, and yours to write to") from None
        finally:
            with suppress(OSError):
                part.unlink()
