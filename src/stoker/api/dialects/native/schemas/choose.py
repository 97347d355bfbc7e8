"""Which hardware a training needs, as it is shown."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says

_UNKNOWN = "null where it is not known"


class MemoryTerm(TypedDict):
    """A part of the memory that a training takes."""

    name: Annotated[
        str, says("weights, optimizer, gradients, copies, activations, at_once, update or context.", "weights")
    ]
    bytes: Annotated[float, says("How large it is.", 1.4e9)]
    text: Annotated[str, says("What it is.", "4 bytes each")]


class NeededMemory(TypedDict):
    """The memory that a training needs on one device, with the whole batch on it."""

    source: Annotated[str, says("estimate, named or measured.", "estimate")]
    low_bytes: Annotated[float, says("It may be as little.", 7.0e9)]
    expected_bytes: Annotated[float, says("What is most likely.", 21.6e9)]
    high_bytes: Annotated[float, says("It may be as much.", 81.6e9)]
    terms: Annotated[
        list[MemoryTerm], says("Of an estimate: its parts. Activations and gradients are not there at one time.", [])
    ]
    peak: Annotated[
        str, says("Of an estimate: which of its parts are there at one time.", "weights and optimizer, and …")
    ]
    assumptions: Annotated[list[str], says("What nobody has said, and was assumed.", [])]


class UsedByJob(TypedDict):
    """What a job has really used."""

    job: Annotated[str, says("Its name.", "train_3f2a")]
    gpus: Annotated[int, says("So many GPUs it held.", 1)]
    peak_bytes: Annotated[float | None, says(f"The most memory of one of them; {_UNKNOWN}.", 1.1e10)]
    is_upper_bound: Annotated[bool, says("Whether its framework took memory in advance, so that it needs less.", False)]
    busy_percent: Annotated[float | None, says(f"How much of the time they were busy; {_UNKNOWN}.", 91.0)]
    sm_ratio: Annotated[float | None, says(f"The part of their multiprocessors that worked; {_UNKNOWN}.", 0.7)]
    batch: Annotated[int | None, says(f"Examples of a step, of all replicas together; {_UNKNOWN}.", 64)]
    examples_per_second: Annotated[float | None, says(f"Of all replicas together; {_UNKNOWN}.", 259.0)]
    data_wait_share: Annotated[float | None, says(f"How much of its time it waits for data, 0 to 1; {_UNKNOWN}.", 0.04)]
    words: Annotated[list[str], says("What follows from it, and what was not seen.", [])]


class Chosen(TypedDict):
    """One kind of hardware, and what becomes of the training on it."""

    rank: Annotated[int | None, says("1 is the best; null: it is out.", 1)]
    place: Annotated[str, says("site, pool, cloud, or purchase: it is bought.", "cloud")]
    name: Annotated[str, says("The accelerator, CPU, or a system that is bought.", "NVIDIA_L4")]
    count: Annotated[int, says("So many devices; 0: the processors train.", 1)]
    machine: Annotated[str, says("The machine, or the node.", "g2-standard-4")]
    provider: Annotated[str, says("The cloud; empty: none.", "gcp")]
    region: Annotated[str, says("The region of the price; empty: any, or none.", "us-central1")]
    market: Annotated[str, says("consumer, workstation, data-centre, system, CPU.", "data-centre")]
    memory_bytes: Annotated[float, says("Of each device, or of the machine.", 2.4e10)]
    needed_bytes: Annotated[float, says("What the training needs of that.", 2.16e10)]
    bandwidth_gb_s: Annotated[float | None, says(f"Of each device's memory, in GB/s; {_UNKNOWN}.", 300.0)]
    tflops: Annotated[float | None, says(f"Of each device at this precision, in TFLOPS; {_UNKNOWN}.", 121.0)]
    precision: Annotated[str, says("In which it would compute.", "bf16")]
    cores: Annotated[int | None, says(f"Of each device; {_UNKNOWN}.", 7424)]
    ecc: Annotated[str, says("Whether its memory corrects errors: yes, no; empty: not known.", "yes")]
    usd_per_hour: Annotated[float | None, says(f"Of the machine; {_UNKNOWN}.", 0.71)]
    usd_per_million_examples: Annotated[float | None, says(f"The price of the work; {_UNKNOWN}.", 1.41)]
    relative_price: Annotated[
        float | None, says(f"The price of a unit of work, as times that of the best that has one; {_UNKNOWN}.", 1.0)
    ]
    step_seconds: Annotated[float | None, says(f"How long a step would take, about; {_UNKNOWN}.", 0.74)]
    examples_per_second: Annotated[float | None, says(f"How many that would be; {_UNKNOWN}.", 86.9)]
    relative_speed: Annotated[float | None, says(f"As times that of the best; {_UNKNOWN}.", 1.0)]
    free: Annotated[
        float | None, says("Of the site's own: so many nobody holds now; null: it is no machine of it.", None)
    ]
    whole: Annotated[float, says("So many the site has.", 0.0)]
    regions: Annotated[int, says("So many regions have it.", 18)]
    why: Annotated[list[str], says("Why it is out, why it comes after the best, what to know.", [])]


class Choice(TypedDict):
    """Which hardware to train on: what suffices first, the best first, then what does not, and why."""

    task: Annotated[str, says("study, research or production.", "research")]
    precision: Annotated[str, says("What the training is to compute in.", "bf16")]
    budget_usd_per_hour: Annotated[float | None, says("What may be spent; null: nobody has said.", None)]
    needs: Annotated[NeededMemory | None, says("What it needs; null: it is not known.", None)]
    used: Annotated[UsedByJob | None, says("What the job has used; null: none was named.", None)]
    choices: Annotated[list[Chosen], says("All that there is.", [])]
    advice: Annotated[list[str], says("What to do where no device suffices, or something is not known.", [])]
