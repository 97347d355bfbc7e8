"""The table of docs/alerts.md: what may be told of."""

from __future__ import annotations

from pathlib import Path

from docs.markdown import table
from stoker.alerts.events import EVENTS

PAGE = Path(__file__).parent / "alerts.md"
BEGIN, END = "<!-- drawn by docs/draw.py from alerts/events.py -->", "<!-- end of what is drawn -->"


def alerts() -> str:
    """The page, with the table as it is now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    rows = [[f"`{e.name}`", e.what, "admins" if e.of_site else "all", "yes" if e.by_default else ""] for e in EVENTS]
    drawn = table(["event", "when", "for", "without `--event`"], rows)
    return f"{before}{BEGIN}\n\n{drawn}\n\n{END}{rest.partition(END)[2]}"
