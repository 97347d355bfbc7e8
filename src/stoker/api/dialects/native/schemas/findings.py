"""What is wrong with how a job trains, and what would help."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says


class Finding(TypedDict):
    """Something to know of the training."""

    code: Annotated[str, says("Which; docs/diagnose.md lists them.", "INPUT_BOUND")]
    text: Annotated[str, says("For people.", "chief-0 waits for data 41 % of its time")]
    action: Annotated[str, says("What would help.", "read by several workers and ahead of time")]
    change: Annotated[
        str, says("Lines of code for the program's framework; empty: none is known.", "DataLoader(…, num_workers=4)")
    ]
    replica: Annotated[str, says("Which replica shows it most; empty: all of them.", "chief-0")]
    source: Annotated[str, says("What it rests on: steps, samples, or steps and samples.", "steps")]
    confidence: Annotated[str, says("How sure it is: high, medium or low.", "high")]
    evidence: Annotated[list[str], says("The numbers that show it.", ["41 % of 290 s was spent waiting for data"])]
    is_good: Annotated[bool, says("Whether nothing is wrong: its GPUs are well used.", False)]


class Findings(TypedDict):
    """What is to be said of how a job trains."""

    findings: Annotated[list[Finding], says("What to look at first is the first one.", [])]
    seconds: Annotated[float, says("So much of its training was looked at, without first steps.", 290.0)]
    steps: Annotated[int, says("So many steps of the chief, or of the first replica that tells of any.", 2900)]
    gpus: Annotated[int, says("So many GPUs of it were sampled meanwhile.", 2)]
    says_enough: Annotated[
        bool, says("False: it has trained for too short a time, or told too little, for anything to be said.", True)
    ]
