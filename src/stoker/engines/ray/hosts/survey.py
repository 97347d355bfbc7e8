"""What a machine is like, asked by one script of sh that needs nothing there, and what is wrong with it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .setup import FOLDER, script

CLOCK_SECONDS = 5.0
"""By so much clocks may differ before anybody is told."""

LEAST_FREE_GB = 1.0
_ROOM_GB = {"all": 10.0, "ray": 2.0}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a machine."""

    what: str
    fix: str
    is_fatal: bool = False  # it cannot be a node like this

    def __str__(self) -> str:
        return f"{self.what} → {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a machine has said of itself."""

    said: Mapping[str, str] = field(default_factory=dict)
    ahead_seconds: float = 0.0  # of its clock before this machine's, as far as it is certain

    def __getitem__(self, name: str) -> str:
        return self.said.get(name, "")

    @property
    def address(self) -> str:
        """By which it was reached."""
        return self._connection[2]

    @property
    def our_address(self) -> str:
        """By which it sees this machine."""
        return self._connection[0]

    @property
    def _connection(self) -> list[str]:
        return [*self["connection"].split(), "", "", "", ""][:4]

    def gigabytes(self, name: str) -> float:
        """Of what was said in kB."""
        return float(self[name] or 0) * 1024 / 1e9


def reaches(*places: str) -> str:
    """The script, and whether these places, host:port, are reached from there, as reach_0 and so on."""
    lines = []
    for number, place in enumerate(places):
        host, _, port = place.rpartition(":")
        lines.append(f'say reach_{number} "$(reach {host} {port})"')
    return script("survey.sh") + "\n".join(lines) + "\n"


def read(output: str, asked_at: float, answered_at: float) -> Survey:
    """What the script printed. Its clock was read at some moment in between."""
    said = {key: value.strip() for key, _, value in (line.partition("=") for line in output.splitlines())}
    try:
        now = float(said["now"].removesuffix(".%N"))
    except (KeyError, ValueError):
        now = asked_at
    ahead = now - answered_at if now > answered_at else now - asked_at if now < asked_at else 0.0
    return Survey(said=said, ahead_seconds=ahead)


def problems(
    survey: Survey, *, machine: str, packages: str, site: str, is_new: bool, drivers: Mapping[str, str]
) -> Iterator[Problem]:
    """What is wrong. `machine`: this one's (`x86_64`). `site`: by which its folder knows whose it is.

    `drivers`: of the GPUs of the other hosts, by their names.
    """
    if survey["system"] != "Linux":
        yield Problem(f"it runs {survey['system'] or 'an unknown system'}", "nodes are machines with Linux", True)
        return
    if survey["machine"] != machine:
        yield Problem(
            f"its processors are {survey['machine']}, and this machine's {machine}",
            "packages of one do not run on the other: give it a Stoker of its own",
            True,
        )
    if survey["owner"] and survey["owner"] != site:
        yield Problem("it is a node of another Stoker's", f"stoker nodes remove there, or remove {FOLDER} on it", True)
    if survey["tools"]:
        yield Problem(f"it has no {survey['tools']}", "apt install util-linux tar", True)
    free, room = survey.gigabytes("disk_kb"), _ROOM_GB[packages] if is_new else LEAST_FREE_GB
    if free < room:
        yield Problem(
            f"its disk has {free:.1f} GB free below {survey['home']}, and {room:g} GB are needed",
            "make room there" + (", or bring Ray alone: --packages ray" if packages == "all" and is_new else ""),
            is_new or free < 0.1,
        )
    if survey.gigabytes("tmp_kb") < 0.5:
        yield Problem(
            f"its /tmp has {survey.gigabytes('tmp_kb'):.1f} GB free",
            "make room there: Ray's sockets and logs are there",
        )
    if abs(survey.ahead_seconds) > CLOCK_SECONDS:
        off, way = _span(abs(survey.ahead_seconds)), "ahead of" if survey.ahead_seconds > 0 else "behind"
        yield Problem(
            f"its clock is {off} {way} this machine's",
            "times of its logs are wrong by that; set it: timedatectl set-ntp true",
        )
    if "failed" in survey["driver"].lower() or "couldn't" in survey["driver"].lower():
        yield Problem(
            f"its GPUs do not answer: {survey['driver']}",
            "see nvidia-smi there; often the driver was updated, and a reboot is due",
        )
    elif survey["driver"]:
        others = sorted({driver for driver in drivers.values() if driver and driver != survey["driver"]})
        if others:
            yield Problem(
                f"its GPU driver is {survey['driver']}, and other machines have {', '.join(others)}",
                "programs built for a newer CUDA start on some of them alone; bring them to one version",
            )
    if not survey["bubblewrap"]:
        yield Problem(
            "it has no bubblewrap, so programs there are not kept apart (isolation level 0)", "apt install bubblewrap"
        )


def unreached(survey: Survey, places: Mapping[str, str]) -> Iterator[Problem]:
    """Places, what → host:port in the order in which they were asked for, that the machine does not reach."""
    for number, (what, place) in enumerate(places.items()):
        if survey[f"reach_{number}"] == "no":
            yield Problem(
                f"it does not reach {place} ({what}) on this machine",
                f"open port {place.rpartition(':')[2]} here for {survey.address}, as by: ufw allow from {survey.address}",
                True,
            )


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
