"""What an attempt died of, as it is shown."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says


class Diagnosis(TypedDict):
    """What an attempt died of."""

    code: Annotated[str, says("For programs; docs/failures.md lists them.", "CUDA_OOM")]
    title: Annotated[str, says("What happened.", "the GPU has too little memory for it")]
    replica: Annotated[
        str, says("The replica whose failure explains the others'; empty: none is to blame.", "worker-0")
    ]
    node: Annotated[str, says("Where that one was.", "local")]
    evidence: Annotated[
        str,
        says("The line that shows it.", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ]
    fix: Annotated[str, says("What to do; empty: nothing.", "use a smaller batch")]
    blame: Annotated[
        str, says("Where the trouble most likely lies: program, node, hardware, either or nobody.", "program")
    ]
    again: Annotated[str, says("Whether another try could help: anywhere, elsewhere or never.", "never")]
    decision: Annotated[
        str, says("What was decided; empty: nothing yet.", "not tried again: the same would happen again")
    ]
