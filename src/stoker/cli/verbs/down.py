"""`stoker down`: end the server."""

from __future__ import annotations

import click

from stoker.cli import session, show


@click.command("down")
@click.option("--cancel-jobs", is_flag=True, help="Cancel what runs first, and wait until it has ended.")
@click.option("--all", "and_standbys", is_flag=True, help="Also those that stand by to take over.")
def command(cancel_jobs: bool, and_standbys: bool) -> None:
    """End the server of this home. Jobs that run go on without it, and the next server takes them over."""
    from stoker.client import embedded
    from stoker.client.client import Client

    config = session.config()
    if and_standbys:
        for other in embedded.standing_by(config):
            embedded.stop(config, other)
            show.done(f"the server that stood by has ended (it was process {other.pid})")
    found = embedded.find(config)
    if found is None:
        show.note("no server runs here")
        return
    if cancel_jobs:
        client = Client(found.url, found.token)
        show.progress("cancelling what runs")
        live = client.live_jobs()
        for job in live:
            client.cancel(job["project"], job["name"])
        for job in live:
            for event in client.stream(job["project"], job["name"], logs=False):
                if event["kind"] == "end":
                    show.done(f"{job['name']} {event['state'].lower()}")
    running = embedded.stop(config, found)
    show.done(f"the server has ended (it was process {found.pid})")
    if running:
        verb = "goes on; the next server takes it" if len(running) == 1 else "go on; the next server takes them"
        show.warn(f"{', '.join(running)} {verb} over (stoker down --cancel-jobs ends all)")
    for other in embedded.standing_by(config):
        show.warn(f"{other.url} stands by and takes over (stoker down --all ends it, too)")
