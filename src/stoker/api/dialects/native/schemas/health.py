"""Whether a machine is fit for work."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says


class Check(TypedDict):
    """One check of a machine, or of a GPU of it."""

    name: Annotated[str, says("What was checked; docs/nodes.md lists them.", "ecc")]
    gpu: Annotated[str, says("The uuid of the GPU; empty: of the machine.", "GPU-8f3a")]
    verdict: Annotated[str, says("PASS, WARN (somebody should look) or FAIL (it is given no work).", "PASS")]
    text: Annotated[str, says("What was found.", "0 errors of memory that could not be corrected")]
    action: Annotated[str, says("What to do; empty: nothing.", "")]


class NodeHealth(TypedDict):
    """The checks of one machine, as it is now."""

    node: Annotated[str, says("The node.", "local-nvidia_h100_80gb")]
    verdict: Annotated[str, says("The worst of its checks.", "PASS")]
    checks: Annotated[list[Check], says("The machine's, then GPU by GPU.", [])]
