"""The full screen, driven by keys, at several sizes; no terminal is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot

from stoker.cli.top.app import Looked, Scrolled, Top
from stoker.cli.top.source import Job, Look
from tests.cli.top.overviews import NOW, STEPS, a_gpu, a_node, a_row, an_overview

MOST_PAUSES = 500


class Site:
    """A server that can be away, and remembers what it was asked about."""

    def __init__(self, overview: dict[str, Any]) -> None:
        self.overview = overview
        self.is_away = False
        self.asked: list[Job | None] = []

    def look(self, job: Job | None) -> Look:
        self.asked.append(job)
        if self.is_away:
            return Look(problem="the server at http://127.0.0.1:7077 does not answer")
        return Look(overview=self.overview, job=job, steps=STEPS if job else None)


def two_jobs(gpus: int = 4) -> Site:
    return Site(
        an_overview(
            [a_gpu(n, job="first" if n == 0 else "second" if n == 1 else "", busy=10 * n % 100) for n in range(gpus)],
            [a_row("first"), a_row("second")],
            [a_node(gpus=gpus)],
        )
    )


def lines_of(app: Top) -> list[str]:
    """What is seen."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def seen(app: Top) -> str:
    return "\n".join(lines_of(app))


async def until(pilot: Pilot[None], is_true: Callable[[], bool]) -> None:
    """Let the screen go on until something is so."""
    for _ in range(MOST_PAUSES):
        await pilot.pause()
        if is_true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not so after {MOST_PAUSES} looks:\n{seen(pilot.app)}")  # type: ignore[arg-type]


def run(
    site: Site,
    test: Callable[[Top, Pilot[None]], Coroutine[Any, Any, None]],
    size: tuple[int, int] = (80, 24),
    seconds: float = 60.0,
) -> Top:
    """Run a test on a screen of that size."""
    app = Top(site.overview, site.look, lambda: "http://127.0.0.1:7077", seconds=seconds, clock=lambda: NOW)

    async def on_a_screen() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(on_a_screen())
    assert app.failure is None
    return app


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (80, 24), (120, 40), (300, 100)])
def test_it_fits_every_size(size: tuple[int, int]) -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        lines = lines_of(app)
        assert len(lines) == size[1] and lines[0].startswith("stoker ")
        assert "q quit" in lines[-1] and all(len(line) <= size[0] for line in lines)
        if size[1] > 5:
            assert any("box" in line for line in lines)

    run(two_jobs(), test, size)


def test_it_follows_the_size() -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        assert "POWER" in seen(app)
        await pilot.resize_terminal(40, 24)
        await until(pilot, lambda: "POWER" not in seen(app) and "BUSY" in seen(app))
        await pilot.resize_terminal(300, 24)
        await until(pilot, lambda: "PRODUCT" in seen(app))

    run(two_jobs(), test)


def test_q_quits() -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)

    assert run(two_jobs(), test).return_code == 0


def test_a_line_is_chosen_and_its_job_shown_alone() -> None:
    site = two_jobs()

    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("j", "down", "k")
        assert app.query_one(Scrolled).chosen.about == ("gpu", "GPU-box-0", "p", "first")
        await pilot.press("enter")
        await until(pilot, lambda: "loss" in seen(app))
        assert ("p", "first") in site.asked and "second" not in seen(app)
        await pilot.press("escape")
        await until(pilot, lambda: "second" in seen(app))
        await until(pilot, lambda: site.asked[-1] is None)
        await pilot.press("tab", "j", "enter")
        await until(pilot, lambda: ("p", "second") in site.asked)

    run(site, test)


def test_a_node_is_shown_alone() -> None:
    site = Site(an_overview([a_gpu(0), a_gpu(0, node="other")], nodes=[a_node(gpus=1), a_node("other", gpus=1)]))

    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("end", "k", "enter")
        await until(pilot, lambda: "other" in seen(app) and "box" not in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "box" in seen(app))

    run(site, test)


def test_gpus_are_sorted() -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: "sorted by busy" in seen(app))
        shown = [line for line in lines_of(app) if "/700 W" in line]
        assert [line.split()[1] for line in shown] == ["3", "2", "1", "0"]

    run(two_jobs(), test)


def test_the_keys_are_explained() -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await until(pilot, lambda: "sort GPUs by" in seen(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: "NODE" in seen(app))

    run(two_jobs(), test)


def test_500_gpus_scroll() -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        assert len([line for line in lines_of(app) if "/700 W" in line]) < 24
        for _ in range(30):
            await pilot.press("pagedown")
        await pilot.press("end", "home", "end")
        await until(pilot, lambda: "second" in lines_of(app)[-2])
        await pilot.press("k", "k")
        assert app.query_one(Scrolled).chosen.about == ("gpu", "GPU-box-499")
        await pilot.press("home")
        await until(pilot, lambda: "box" in lines_of(app)[5])

    run(two_jobs(500), test)


def test_what_is_chosen_stays_chosen_when_lines_move() -> None:
    site = two_jobs()

    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j")
        chosen = app.query_one(Scrolled).chosen.about
        site.overview = an_overview([a_gpu(n, job="new") for n in range(-3, 0)] + site.overview["gpus"], [a_row("new")])
        await until(pilot, lambda: "new/chief-0" in seen(app))
        assert app.query_one(Scrolled).chosen.about == chosen

    run(site, test, seconds=0.2)


def test_a_server_that_goes_away_is_waited_for() -> None:
    site = two_jobs()

    async def test(app: Top, pilot: Pilot[None]) -> None:
        site.is_away = True
        await until(pilot, lambda: "asked again: the server at http://127.0.0.1:7077 does not" in seen(app))
        assert "first/chief-0" in seen(app), "what it showed last stays"
        site.is_away = False
        await until(pilot, lambda: "does not answer" not in seen(app))

    run(site, test, (100, 24), seconds=0.2)


def test_names_that_would_move_the_cursor_are_harmless() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07" + "é长" * 100
    site = Site(an_overview([a_gpu(job=evil, product=evil)], [a_row(evil, owner="a\nb")], [a_node(gpus=1)]))

    async def test(app: Top, pilot: Pilot[None]) -> None:
        assert not set("\x1b\x07") & set(seen(app)) and "a�b" in seen(app)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "loss" in seen(app))

    run(site, test, (120, 24))


def test_what_was_asked_about_another_job_is_not_shown() -> None:
    site = two_jobs()

    def late(job: Job | None) -> Look:
        site.asked.append(job)
        return Look(overview=site.overview, job=("p", "first"), steps=STEPS)

    site.look = late  # type: ignore[method-assign]

    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("tab", "j", "enter")
        await until(pilot, lambda: ("p", "second") in site.asked)
        await until(pilot, lambda: "looking how it trains" in seen(app))
        assert "loss" not in seen(app)

    run(site, test)


@pytest.mark.parametrize("width", [40, 80, 300])
def test_the_keys_fit_the_screen(width: int) -> None:
    async def test(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await until(pilot, lambda: "docs/monitoring.md" in seen(app))
        words = " ".join(seen(app).split())
        assert "that machine alone" in words and "temperature, job" in words and "what to make of the numbers." in words

    run(two_jobs(), test, (width, 40))


def test_an_answer_that_makes_no_sense_ends_it_without_pages_of_text() -> None:
    site = two_jobs()
    app = Top(site.overview, site.look, lambda: "", seconds=60, clock=lambda: NOW)

    async def on_a_screen() -> None:
        async with app.run_test() as pilot:
            await pilot.pause()
            app.post_message(Looked(Look(overview={"version": "9"})))
            await until(pilot, lambda: app.failure is not None)

    asyncio.run(on_a_screen())
    assert isinstance(app.failure, KeyError)
