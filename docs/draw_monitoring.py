"""The tables of docs/monitoring.md: what is measured of GPUs and of machines."""

from __future__ import annotations

from pathlib import Path

from docs.markdown import table
from stoker.gpu.metrics import METRICS, Metric
from stoker.sampling.host import HOST_METRICS
from stoker.sampling.series import SPEED

PAGE = Path(__file__).parent / "monitoring.md"
BEGIN_GPUS, BEGIN_HOST = (
    "<!-- drawn by docs/draw.py from gpu/metrics.py -->",
    "<!-- drawn by docs/draw.py from sampling/host.py -->",
)
END = "<!-- end of what is drawn -->"


def monitoring() -> str:
    """The page, with the tables as they are now."""
    text = PAGE.read_text()
    gpus = [[f"`{one.name}`", one.help, _dcgm(one), _kept(one.name, one.is_counter)] for one in METRICS]
    host = [[f"`{one.name}`", one.help, _kept(one.name, one.is_counter)] for one in HOST_METRICS]
    for begin, drawn in (
        (BEGIN_GPUS, table(["name", "what it is", "DCGM", "over time"], gpus)),
        (BEGIN_HOST, table(["name", "what it is", "over time"], host)),
    ):
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{drawn}\n\n{END}{rest.partition(END)[2]}"
    return text


def _dcgm(metric: Metric) -> str:
    return f"`DCGM_FI_{metric.dcgm}`" if metric.dcgm else ""


def _kept(name: str, is_counter: bool) -> str:
    return f"`{name}{SPEED}`" if is_counter else "the same"
