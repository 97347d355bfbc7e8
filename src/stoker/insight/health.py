"""Whether a machine and its GPUs are fit for work, by what was sampled of them. Pure.

Sources: NVIDIA's Xid catalogue and its driver's own advice (NVML field 230); checks before a job as Meta's GCM and NVIDIA's
resiliency extension do them (gpu_num, ecc, row_remap, running_procs, temperature, PCIe).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.gpu.reading import Fault, GpuProcess, Reading, Xid
from stoker.gpu.xid_catalogue import XidAction, action_of, words_of

XID_SECONDS = 86400.0
"""An Xid counts for so long, or until the machine was restarted."""

STRANGER_BYTES = 512 << 20
_FULL_MEMORY, _FEW_FREE_BYTES = 0.97, 1 << 30

_ADVICE = {
    1: "reset it: nvidia-smi --gpu-reset",
    2: "restart the machine",
    3: "drain what uses its links to others, then reset them",
    4: "drain it, then reset it",
    5: "restart the service of the links between machines (nvidia-imex)",
    6: "reset it by its bus",
    7: "restart the machine",
}
_MENDS = {
    XidAction.RESET_GPU: "end what runs on it, then nvidia-smi --gpu-reset",
    XidAction.RESTART_MACHINE: "restart the machine; if it comes back, the card, its slot or its power is at fault",
}


class Verdict(StrEnum):
    """What a check says."""

    PASS = "PASS"
    WARN = "WARN"  # it may be given work, and somebody should look
    FAIL = "FAIL"  # it is given no work


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of a machine, or of a GPU of it."""

    name: str
    verdict: Verdict
    text: str
    action: str = ""  # what to do; empty: nothing
    gpu: str = ""  # its uuid; empty: of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of a machine now."""

    devices: Sequence[str]  # it should have these GPUs
    gpus: Sequence[Reading]
    processes: Sequence[GpuProcess] = ()
    held: Collection[str] = ()  # GPUs that jobs hold
    xids: Sequence[Xid] = ()
    host: Mapping[str, float] | None = None  # None: it is not sampled
    now: float = 0.0


def checks(seen: Seen) -> list[Check]:
    """All checks, of the machine and then GPU by GPU."""
    found = [*_of_machine(seen)]
    shown = {reading.device.uuid: reading for reading in seen.gpus}
    for uuid in seen.devices:
        reading = shown.get(uuid)
        found += [*_of_gpu(uuid, reading, seen)] if seen.gpus or seen.host is not None else []
    return found


def worst(found: Sequence[Check]) -> Verdict:
    """Of several checks."""
    for verdict in (Verdict.FAIL, Verdict.WARN):
        if any(check.verdict is verdict for check in found):
            return verdict
    return Verdict.PASS


def _of_machine(seen: Seen) -> Iterator[Check]:
    if seen.host is None:
        yield Check(
            name="sampled",
            verdict=Verdict.WARN,
            text="it is not sampled, so that nothing is known of it",
            action="only the server's own machine is sampled; see stoker status",
        )
        return
    total, used = seen.host.get("host_memory_total_bytes", 0.0), seen.host.get("host_memory_used_bytes", 0.0)
    is_full = bool(total) and used > _FULL_MEMORY * total and total - used < _FEW_FREE_BYTES
    yield Check(
        name="memory",
        verdict=Verdict.WARN if is_full else Verdict.PASS,
        text=f"{used / 2**30:.1f} of {total / 2**30:.1f} GiB in use",
        action="end what Stoker did not start, or give jobs less" if is_full else "",
    )


def _of_gpu(uuid: str, reading: Reading | None, seen: Seen) -> Iterator[Check]:
    if reading is None:
        yield Check(
            name="present",
            gpu=uuid,
            verdict=Verdict.FAIL,
            text="it is not there any more",
            action="restart the machine",
        )
        return
    if reading.fault is not None:
        yield Check(
            name="driver",
            gpu=uuid,
            verdict=Verdict.FAIL,
            text=f"{reading.fault}: {reading.problem}",
            action=_MENDS[XidAction.RESET_GPU if reading.fault is Fault.RESET_REQUIRED else XidAction.RESTART_MACHINE],
        )
        return
    values = reading.values
    yield Check(name="driver", gpu=uuid, verdict=Verdict.PASS, text="it answers")
    advice = int(values.get("recovery_action", 0))
    if "recovery_action" in values:
        yield Check(
            name="recovery",
            gpu=uuid,
            verdict=Verdict.FAIL if advice else Verdict.PASS,
            text=f"its driver advises action {advice}" if advice else "its driver advises nothing",
            action=_ADVICE.get(advice, "see NVIDIA's documentation of field 230") if advice else "",
        )
    yield from _of_memory(uuid, values)
    yield from _of_errors(uuid, seen)
    yield from _of_heat(uuid, values)
    yield from _of_bus(uuid, values)
    yield from _of_strangers(uuid, values, seen)


def _of_memory(uuid: str, values: Mapping[str, float]) -> Iterator[Check]:
    uncorrected = values.get("ecc_uncorrected")
    if uncorrected is not None:
        yield Check(
            name="ecc",
            gpu=uuid,
            verdict=Verdict.FAIL if uncorrected else Verdict.PASS,
            text=f"{uncorrected:.0f} errors of memory that could not be corrected, since the driver was loaded",
            action=_MENDS[XidAction.RESET_GPU] + "; if it comes back, replace the card" if uncorrected else "",
        )
    failed, pending = values.get("remap_failure"), values.get("remap_pending")
    if failed is not None or pending is not None:
        verdict = Verdict.FAIL if failed else Verdict.WARN if pending else Verdict.PASS
        text = (
            "rows of memory could not be replaced"
            if failed
            else "rows wait for a reset to be replaced"
            if pending
            else "none"
        )
        yield Check(
            name="remapped rows",
            gpu=uuid,
            verdict=verdict,
            text=text,
            action="replace the card" if failed else "reset it when its job has ended" if pending else "",
        )


def _of_errors(uuid: str, seen: Seen) -> Iterator[Check]:
    ours = [xid for xid in seen.xids if xid.uuid == uuid and xid.at > seen.now - XID_SECONDS]
    hard = [xid for xid in ours if action_of(xid.code) in (XidAction.RESET_GPU, XidAction.RESTART_MACHINE)]
    soft = [xid for xid in ours if action_of(xid.code) in (XidAction.WATCH, XidAction.UNKNOWN)]
    if hard:
        last = hard[-1]
        yield Check(name="xid", gpu=uuid, verdict=Verdict.FAIL, text=_xid(last), action=_MENDS[action_of(last.code)])
    elif soft:
        yield Check(
            name="xid",
            gpu=uuid,
            verdict=Verdict.WARN,
            text=_xid(soft[-1]),
            action="see NVIDIA's Xid catalogue, and dmesg",
        )
    else:
        yield Check(name="xid", gpu=uuid, verdict=Verdict.PASS, text="none that is the card's fault within a day")


def _xid(xid: Xid) -> str:
    words = words_of(xid.code)
    return f"Xid {xid.code}" + (f": {words}" if words else "")


def _of_heat(uuid: str, values: Mapping[str, float]) -> Iterator[Check]:
    at, limit = values.get("temperature_celsius"), values.get("slowdown_celsius")
    if at is None or limit is None:
        return
    is_hot = at >= limit
    yield Check(
        name="temperature",
        gpu=uuid,
        verdict=Verdict.WARN if is_hot else Verdict.PASS,
        text=f"{at:.0f} °C, and it slows down at {limit:.0f} °C",
        action="look at its fans, and at the air of the room" if is_hot else "",
    )


def _of_bus(uuid: str, values: Mapping[str, float]) -> Iterator[Check]:
    """An idle card lets its link go slower by itself; lanes it keeps."""
    width, most = values.get("pcie_width"), values.get("pcie_width_max")
    if width is None or not most:
        return
    is_narrow = width < most
    yield Check(
        name="pcie",
        gpu=uuid,
        verdict=Verdict.WARN if is_narrow else Verdict.PASS,
        text=f"{width:.0f} of {most:.0f} lanes",
        action="see whether the card sits well in its slot, and whether the slot has so many" if is_narrow else "",
    )


def _of_strangers(uuid: str, values: Mapping[str, float], seen: Seen) -> Iterator[Check]:
    if uuid in seen.held:
        return
    used = values.get("memory_used_bytes", 0.0)
    theirs = [process.pid for process in seen.processes if process.uuid == uuid]
    is_taken = bool(theirs) or used > STRANGER_BYTES
    who = f" by process {', '.join(map(str, theirs[:5]))}" if theirs else ""
    yield Check(
        name="free",
        gpu=uuid,
        verdict=Verdict.WARN if is_taken else Verdict.PASS,
        text=f"no job holds it, and {used / 2**20:.0f} MiB of it are in use{who}",
        action="end what Stoker did not start: nvidia-smi" if is_taken else "",
    )
