"""The traces of Gavel (OSDI'20) and Shockwave (NSDI'23): tab separated, without a header.

Gavel's own ten columns say no run time, only steps: it follows from its table of throughputs, which is not read here.
Shockwave's twelve do. An SLO is so many times the run time, -1 for none. A job is called after its line.
"""

from __future__ import annotations

from pathlib import Path

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.reading.assemble import assemble
from stoker.simulate.reading.source import Source
from stoker.simulate.reading.table import Row, Table, header_of
from stoker.simulate.trace import Trace, TraceJob

COLUMNS = (
    *("job_type", "command", "working_directory", "steps_argument", "needs_data_directory", "total_steps"),
    *("scale_factor", "mode", "priority_weight", "slo", "duration", "arrival"),
)
WITHOUT_RUN_TIME = 10
TAB = "\t"


class Gavel:
    """Job type, command, folder, steps argument, needs data, steps, scale factor, mode, weight, SLO, run time, arrival."""

    columns: tuple[str, ...] = ()
    usual = ""

    def recognises(self, head: str, path: Path) -> bool:
        """By the number of its fields, and the flag among them."""
        fields = header_of(head, TAB)
        return len(fields) in (len(COLUMNS), WITHOUT_RUN_TIME) and fields[4] in ("0", "1") and fields[6].isdecimal()

    def read(self, source: Source) -> Trace:
        """Times are seconds from the trace's own zero."""
        if len(header_of(source.text, TAB)) == WITHOUT_RUN_TIME:
            what = f"has Gavel's {WITHOUT_RUN_TIME} columns, without a run time"
            raise BadSpec(
                [Violation(source.name, what)], fix="use Shockwave's form with 12, whose 11th is the run time"
            )
        return assemble(source, Table(source, (), separator=TAB, header=COLUMNS).collect(_job))


def _job(row: Row) -> TraceJob:
    run_seconds = row.above_zero("duration")
    slo = row.number("slo", otherwise=-1)
    return TraceJob(
        name=f"{row.line:06d}",
        submitted_at=row.number("arrival", least=0),
        run_seconds=run_seconds,
        gpus_milli=row.gpus("scale_factor", least=1),
        program=row.name("job_type"),
        deadline_seconds=slo * run_seconds if slo > 0 else None,
    )
