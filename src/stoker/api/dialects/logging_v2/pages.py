"""The answer of entries.list: the program's lines and the service's own, in one order, a page at a time.

Nobody who reads on from where they were misses a line, and nobody gets one twice: before a page is read, the job's log is
sealed up to the last moment that the page may show, so that whatever arrives later comes later (store/log_file.py).
"""

from __future__ import annotations

import heapq
import operator
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from stoker.api.services import Services
from stoker.core.errors import NotFound
from stoker.core.states import FINAL_JOB_STATES
from stoker.store.base import Listed

from .entries import Subject, Told, entry, judge, moments, program_line, service_line
from .questions import Position, Question
from .service_lines import service_lines

SETTLE_MICROSECONDS = 1_000_000
"""A change of the job's state is written down, and then takes so long at most until it can be read."""

_MOST_LOOKED_AT = 50_000
_MOST_CHARACTERS = 4 << 20
_END_OF_TIME = 1 << 61


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    answer: dict[str, Any]
    may_grow: bool  # whether a job that it is about still runs


def read_page(site: Services, asked: Question, *, to_the_end: bool) -> Page:
    """Read a page.

    `to_the_end`: whatever the upper bound of its time says, all of a job that has ended, and what is settled of one that runs.
    """
    found = [listed for job in asked.jobs if (listed := _find(site, job)) is not None]
    may_grow = any(listed.job.state not in FINAL_JOB_STATES for listed in found)
    subjects = {listed.job.id: Subject.of(listed.job, asked.names) for listed in found}
    sources = [_lines(site, listed, subjects[listed.job.id], asked, to_the_end) for listed in found]
    merged = heapq.merge(*sources, key=_position, reverse=asked.newest_first)
    judges = {job: judge(asked.filter, subject, to_the_end=to_the_end) for job, subject in subjects.items()}
    shown: list[Told] = []
    last: Told | None = None
    characters = 0
    for count, told in enumerate(merged):
        is_wanted = judges[told.job](told)
        if (is_wanted and (len(shown) == asked.size or characters > _MOST_CHARACTERS)) or count == _MOST_LOOKED_AT:
            break  # there is more, or there may be: more was looked through than one answer is worth
        if is_wanted:
            shown.append(told)
            characters += len(told.said.message)
        last = told
    else:
        last = None
    answer: dict[str, Any] = {}
    if shown:
        answer["entries"] = [entry(subjects[told.job], told) for told in shown]
    if last is not None:
        answer["nextPageToken"] = asked.token(last.position)
    return Page(answer, may_grow)


def _lines(site: Services, listed: Listed, subject: Subject, asked: Question, to_the_end: bool) -> Iterator[Told]:
    """The lines of one job behind the page before, in the order that is asked for."""
    job, has_ended = listed.job.id, listed.job.state in FINAL_JOB_STATES
    low, high = moments(asked.filter)
    last = _END_OF_TIME if high is None or to_the_end else high
    if not has_ended and not asked.newest_first:
        settled = int(site.commands.clock.now() * 1e6) - SETTLE_MICROSECONDS
        last = site.logs.seal(job, settled if to_the_end else last)
    if asked.after is not None:
        low, last = (low, min(last, asked.after[0])) if asked.newest_first else (max(low, asked.after[0]), last)
    own = [
        service_line(subject, number, line)
        for number, line in enumerate(service_lines(listed.job, site.store.story(job)))
        if low <= line.moment <= last
    ]
    if asked.newest_first:
        lines = takewhile(lambda line: line.moment >= low, site.logs.until(job, last))
        own.reverse()
    else:
        lines = takewhile(lambda line: line.moment <= last, site.logs.since(job, low))
    return _woven(own, (program_line(subject, line) for line in lines), asked)


def _woven(own: list[Told], programs: Iterator[Told], asked: Question) -> Iterator[Told]:
    """Both in one order, behind the page before. The service's own are few, so that most lines are only passed on."""
    comes_before = operator.gt if asked.newest_first else operator.lt
    after = asked.after
    waiting = deque(told for told in own if after is None or comes_before(after, told.position))
    for told in programs:
        if after is None or comes_before(after, told.position):
            while waiting and comes_before(waiting[0].position, told.position):
                yield waiting.popleft()
            yield told
    yield from waiting


def _position(told: Told) -> Position:
    return told.position


def _find(site: Services, job: str) -> Listed | None:
    try:
        return site.store.job(job)
    except NotFound:
        return None
