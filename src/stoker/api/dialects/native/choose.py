"""Which hardware a training needs: what the site has, what it orders, and what the catalog knows, ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, TypeVar

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.core.errors import BadSpec, Violation
from stoker.gpu.reading import Reading
from stoker.hardware.choosing import amounts
from stoker.hardware.choosing.advice import advice
from stoker.hardware.choosing.offers import catalog_offers
from stoker.hardware.choosing.ranking import HEADROOM, Need, Ranked, Task, rank
from stoker.hardware.choosing.speed import Rates, cpu_rates, rates_of
from stoker.hardware.choosing.training_memory import Estimate, estimate
from stoker.hardware.choosing.workload import OPTIMIZER_STATES, Framework, ModelKind, Precision, Workload
from stoker.hardware.prices import REFERENCE_REGION
from stoker.hardware.regions import regions
from stoker.insight.job_use import TOTAL, Used
from stoker.insight.site_offers import rooms_of, site_offers, unknown_accelerators

from .answers import a_router, answer, declares
from .job_use import used_in
from .schemas import choose as c
from .schemas.words import Project, asks

router = a_router("nodes")
Word = TypeVar("Word", bound=StrEnum)
_MOST = 10_000_000
_MOST_NAMED = 8
_PLAIN = {Precision.FP32: ("it computes in fp32, without tensor cores; --precision bf16 or tf32 ranks with them",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked, as text and numbers; empty and 0: nothing was said."""

    memory: str
    parameters: str
    batch: int
    precision: str
    optimizer: str
    kind: str
    framework: str
    sequence: int
    hidden: int
    layers: int
    heads: int
    vocabulary: int
    image: int
    activations: str
    checkpointing: bool
    budget: str
    task: str
    region: str


@router.get("/projects/{project}/choose", responses=declares(c.Choice, 400, 404))
def choose_hardware(
    project: Project,
    request: Request,
    memory: Annotated[str, asks("What the training needs on a device: 20GB, 16GiB.", "20GB")] = "",
    parameters: Annotated[str, asks("How many parameters the model has: 350M, 7B.", "350M")] = "",
    batch: Annotated[
        int, asks("Examples of a step, of all devices together; 0: 1, or the job's.", 64, ge=0, le=_MOST)
    ] = 0,
    precision: Annotated[str, asks("fp32, tf32, bf16, fp16 (both mixed), pure-bf16; empty: fp32.", "bf16")] = "",
    optimizer: Annotated[
        str, asks("sgd, momentum, rmsprop, adagrad, lion, adafactor, adam, adamw.", "adamw")
    ] = "adamw",
    kind: Annotated[str, asks("transformer, convolutional, recurrent, dense.", "transformer")] = "transformer",
    framework: Annotated[str, asks("torch, tensorflow, jax.", "torch")] = "torch",
    sequence: Annotated[int, asks("Positions of an example; 0: unknown.", 512, ge=0, le=_MOST)] = 0,
    hidden: Annotated[int, asks("The model's width; 0: unknown.", 1024, ge=0, le=_MOST)] = 0,
    layers: Annotated[int, asks("How many layers; 0: unknown.", 24, ge=0, le=_MOST)] = 0,
    heads: Annotated[int, asks("Heads of attention that keeps its scores; 0: a fused kernel.", 16, ge=0, le=_MOST)] = 0,
    vocabulary: Annotated[int, asks("Of a language model's last layer; 0: none.", 50257, ge=0, le=_MOST)] = 0,
    image: Annotated[int, asks("Pixels of a side of an image; 0: 224.", 224, ge=0, le=_MOST)] = 0,
    activations: Annotated[str, asks("Values that an example leaves for the backward pass: 22M.", "22M")] = "",
    checkpointing: Annotated[bool, asks("Whether activations are worked out anew.", False)] = False,
    budget: Annotated[str, asks("What may be spent: 3/h, 50/day, 1500/month.", "3/h")] = "",
    task: Annotated[str, asks("study, research, production.", "research")] = "research",
    region: Annotated[str, asks("Of the prices; empty: us-central1.", "us-central1")] = "",
    job: Annotated[str, asks("Begin with what this job has used.", "train_3f2a")] = "",
) -> Response:
    """Which hardware to train on: what suffices first, the best first; of the others, why not.

    GPUs of this site come before those of clouds. Speeds and memory are estimates, with their assumptions; docs/choose.md tells
    how they are made.
    """
    asked = Asked(
        memory=memory,
        parameters=parameters,
        batch=batch,
        precision=precision,
        optimizer=optimizer,
        kind=kind,
        framework=framework,
        sequence=sequence,
        hidden=hidden,
        layers=layers,
        heads=heads,
        vocabulary=vocabulary,
        image=image,
        activations=activations,
        checkpointing=checkpointing,
        budget=budget,
        task=task,
        region=region,
    )
    site = services(request)
    used, says = used_in(site, project, job) if job else (None, "")
    return answer(_choice(site, asked, job, used, says))


def _choice(site: Services, asked: Asked, job: str, used: Used | None, job_precision: str) -> c.Choice:
    need = _need(asked, used, job_precision)
    found: c.Choice = {
        "task": str(need.task),
        "precision": str(need.precision),
        "budget_usd_per_hour": need.budget_usd_per_hour,
        "needs": _needed(need, "measured" if not asked.memory else "named"),
        "used": _used_row(job, used) if used is not None else None,
        "choices": [],
        "advice": [],
    }
    if need.work is None and not need.memory_bytes:
        found["advice"] = ["nothing to rank by: give --parameters with --batch, or --memory"]
        return found
    rooms = site.live.made(rooms_of)
    told = {now.reading.device.uuid: _total_bytes(now.reading) for now in site.monitor.gpus()}
    own = site_offers(rooms, site.commands.rules.site.pools, {uuid: size for uuid, size in told.items() if size})
    offers = [*own, *catalog_offers(asked.region or REFERENCE_REGION, with_tpus=need.framework is not Framework.TORCH)]
    ranked = rank(need, offers)
    prices = [one.usd_per_work for one in ranked if one.is_fit and one.usd_per_work]
    found["choices"] = [_row(one, place, need, ranked[0], prices[:1]) for place, one in enumerate(ranked, 1)]
    nothing = [
        f"nothing is known of {name}, which this site has: it is not ranked" for name in unknown_accelerators(rooms)
    ]
    found["advice"] = [*advice(need, offers), *nothing]
    return found


def _need(asked: Asked, used: Used | None, job_precision: str) -> Need:
    """What was asked, read. Raises BadSpec with all that is wrong."""
    wrong: list[Violation] = []

    def read(make: Callable[[], Word]) -> Word | None:
        try:
            return make()
        except BadSpec as error:
            wrong.extend(error.violations)
            return None

    numbers: dict[str, float] = {}
    for name, text, parse in (
        ("parameters", asked.parameters, amounts.parameters_of),
        ("memory", asked.memory, amounts.bytes_of),
        ("budget", asked.budget, amounts.usd_per_hour_of),
        ("activations", asked.activations, amounts.parameters_of),
    ):
        try:
            numbers[name] = parse(text, name) if text else 0.0
        except BadSpec as error:
            wrong.extend(error.violations)
    plain = job_precision if job_precision in list(Precision) else Precision.FP32
    precision = read(lambda: _word(Precision, "precision", asked.precision or plain))
    kind = read(lambda: _word(ModelKind, "kind", asked.kind))
    framework = read(lambda: _word(Framework, "framework", asked.framework))
    task = read(lambda: _word(Task, "task", asked.task))
    if asked.optimizer.lower() not in OPTIMIZER_STATES:
        wrong.append(Violation("optimizer", _not_one_of("optimizer", asked.optimizer, list(OPTIMIZER_STATES))))
    if asked.region and asked.region not in regions():
        wrong.append(Violation("region", _not_one_of("region", asked.region, list(regions()))))
    if not asked.parameters and not asked.memory and used is None:
        wrong.append(
            Violation("parameters", "give parameters (350M, with a batch), memory (20GB), or a job to begin with")
        )
    if wrong or precision is None or kind is None or framework is None or task is None:
        raise BadSpec(wrong)
    work = None
    if numbers["parameters"]:
        work = Workload(
            parameters=numbers["parameters"],
            batch=asked.batch or (used.batch if used is not None and used.batch else 1),
            precision=precision,
            optimizer=asked.optimizer.lower(),
            kind=kind,
            framework=framework,
            sequence=asked.sequence,
            hidden=asked.hidden,
            layers=asked.layers,
            heads=asked.heads,
            vocabulary=asked.vocabulary,
            image=asked.image,
            activations=numbers["activations"],
            checkpointing=asked.checkpointing,
        )
    measured = used.peak_bytes if used is not None and used.peak_bytes is not None and work is None else 0.0
    return Need(
        task=task,
        work=work,
        memory_bytes=numbers["memory"] or measured or 0.0,
        precision=precision,
        framework=framework,
        budget_usd_per_hour=numbers["budget"] or None,
    )


def _word(kind: type[Word], field: str, text: str) -> Word:
    try:
        return kind(text.strip().lower())
    except ValueError:
        raise BadSpec([Violation(field, _not_one_of(field, text, [str(word) for word in kind]))]) from None


def _not_one_of(what: str, text: str, known: Sequence[str]) -> str:
    near = get_close_matches(text.lower(), known, 1)
    several = f"there are {', '.join(known)}" if len(known) <= _MOST_NAMED else f"stoker {what}s lists them"
    return f"{text[:40]!r} is no {what}; " + (f"did you mean {near[0]}?" if near else several)


def _needed(need: Need, source: str) -> c.NeededMemory | None:
    if need.memory_bytes:
        size = need.memory_bytes
        words = [f"{(HEADROOM - 1) * 100:.0f} % are added as room"]
        return {
            "source": source,
            "low_bytes": size,
            "expected_bytes": size,
            "high_bytes": size * HEADROOM,
            "terms": [],
            "peak": "",
            "assumptions": [*words, *_PLAIN.get(need.precision, ())],
        }
    if need.work is None:
        return None
    found: Estimate = estimate(need.work)
    return {
        "source": "estimate",
        "low_bytes": found.low_bytes,
        "expected_bytes": found.expected_bytes,
        "high_bytes": found.high_bytes,
        "terms": [{"name": term.name, "bytes": term.bytes, "text": term.text} for term in found.terms],
        "peak": found.peak,
        "assumptions": [*found.assumptions, *_PLAIN.get(need.precision, ())],
    }


def _row(one: Ranked, place: int, need: Need, best: Ranked, price: Sequence[float]) -> c.Chosen:
    """`price`: of a unit of work on the best that has one; empty: none has."""
    offer, chip = one.offer, one.offer.chip
    rates: Rates | None = cpu_rates(offer.vcpus) if chip is None else rates_of(chip, need.precision)
    return {
        "rank": place if one.is_fit else None,
        "place": str(offer.place),
        "name": offer.name,
        "count": offer.count,
        "machine": offer.machine,
        "provider": offer.provider,
        "region": offer.region,
        "market": offer.market,
        "memory_bytes": offer.memory_bytes,
        "needed_bytes": one.needed_bytes,
        "bandwidth_gb_s": rates.gb_s if rates is not None else None,
        "tflops": rates.tflops if rates is not None else None,
        "precision": one.precision,
        "cores": int(chip.cores) if chip is not None and chip.cores else None,
        "ecc": chip.ecc if chip is not None else "",
        "usd_per_hour": offer.usd_per_hour,
        "usd_per_million_examples": one.usd_per_million,
        "relative_price": one.usd_per_work / price[0] if one.usd_per_work is not None and price else None,
        "step_seconds": one.step_seconds,
        "examples_per_second": one.examples_per_second,
        "relative_speed": one.speed / best.speed if best.is_fit and best.speed else None,
        "free": offer.free,
        "whole": offer.whole,
        "regions": offer.regions,
        "why": list(one.why),
    }


def _used_row(job: str, used: Used) -> c.UsedByJob:
    return {
        "job": job,
        "gpus": used.gpus,
        "peak_bytes": used.peak_bytes,
        "is_upper_bound": used.is_upper_bound,
        "busy_percent": used.busy_percent,
        "sm_ratio": used.sm_ratio,
        "batch": used.batch,
        "examples_per_second": used.examples_per_second,
        "data_wait_share": used.data_wait_share,
        "words": list(used.words),
    }


def _total_bytes(reading: Reading) -> float:
    return float(reading.values.get(TOTAL, reading.device.memory_bytes))
