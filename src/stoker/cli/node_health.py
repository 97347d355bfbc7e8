"""`stoker nodes test`: whether a machine is fit for work."""

from __future__ import annotations

import click

from stoker.cli import session, show

FAILED = 1


@click.command("test")
@click.argument("name", metavar="NODE")
@session.json_option
def test(name: str, as_json: bool) -> None:
    """Check NODE and its GPUs: driver, memory, errors, heat, bus, and who uses what no job holds. Ends with 1 if it fails.

    The server does the same by itself: a machine that fails is given nothing new, and gets work again when it passes.
    """
    found = session.client().node_health(name)
    if as_json:
        show.data(found)
    else:
        headers = ["VERDICT", "CHECK", "GPU", "FOUND", "WHAT TO DO"]
        rows = [[c["verdict"], c["name"], c["gpu"], c["text"], c["action"]] for c in found["checks"]]
        show.table(headers, rows)
        if found["verdict"] == "PASS":
            show.done(f"{name} is fit for work")
        else:
            show.warn(f"{name}: {'it should be looked at' if found['verdict'] == 'WARN' else 'it is given no work'}")
    if found["verdict"] == "FAIL":
        click.get_current_context().exit(FAILED)
