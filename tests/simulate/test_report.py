"""Results and reports: everything is said, nothing is made up, and a trace cannot write into them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from stoker.core.site import Backfill, Site
from stoker.simulate import axes, figures, plots
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.failures import Failures
from stoker.simulate.figures import FIGURES, cell, pick, rows, seconds
from stoker.simulate.markup import safe, tag
from stoker.simulate.report import pictures, report
from stoker.simulate.results import result, shapes, text_of
from stoker.simulate.run import Model
from stoker.simulate.study import study
from stoker.simulate.trace import Trace
from tests.simulate.traces_by_hand import BLOCKED, a_trace

EVIL = "</style><script>alert(1)</script>&amp;\"'\x00\x1b]0;x\x07￾"
SITES = [Site(policy="fifo", backfill=Backfill.STRICT), Site(policy="las")]
SVG = "{http://www.w3.org/2000/svg}"


def found(trace: Trace | None = None, **model: Any) -> dict[str, Any]:
    """A result."""
    trace, nodes = trace or a_trace(BLOCKED + ", d 30 10 1 @x"), nodes_of_text("1x8xV100")
    return result(trace, "ab" * 32, {"from": "0"}, nodes, Model(**model), study(trace, nodes, SITES, Model(**model)))


def page(value: dict[str, Any]) -> ElementTree.Element:
    """A report, read as XML."""
    return ElementTree.fromstring(report(value))


def words(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_the_same_again_gives_the_same_bytes() -> None:
    drawn = {"failures": Failures(mean_seconds=3000.0, repair_seconds=60.0), "resumable_share": 0.5, "seed": 3}
    first, second = text_of(found(**drawn)), text_of(found(**drawn))
    assert first == second and first != text_of(found(**{**drawn, "seed": 4}))
    assert json.loads(first)["model"]["seed"] == 3
    assert report(found(**drawn)) == report(found(**drawn))


def test_a_result_says_what_was_replayed_and_how() -> None:
    value = found(a_trace(BLOCKED, dropped={"no GPU": 7}, notes=("made up",), time_zero="2017-10-02"))
    assert value["trace"] == {
        "name": "by-hand",
        "file": "by-hand.csv",
        "sha256": "ab" * 32,
        "time_zero": "2017-10-02",
        "window": {"from": "0"},
        "jobs": 3,
        "dropped_rows": {"no GPU": 7},
        "notes": ["made up"],
    }
    assert value["nodes"] == {"count": 1, "gpus": 8, "shapes": ["1x8xV100"]}
    assert value["model"]["run_times"] == "learned from ended jobs" and "by id" in value["model"]["ties"]
    fifo = value["policies"][0]
    assert (fifo["policy"], fifo["placer"], fifo["backfill"]) == ("fifo", "best-fit", "strict")
    assert fifo["preemption"]["victims"] == "resumable" and fifo["site_queues"]["default"]["weight"] == 1.0
    assert fifo["metrics"]["jct_seconds"]["mean"] == pytest.approx((1000 + 1490 + 1580) / 3)
    assert fifo["metrics"]["makespan_seconds"] == 1600 and fifo["jobs"] == {"ended": 3, "refused": 0, "unfinished": 0}
    assert fifo["quantiles"]["wait_seconds"][0] == 0 and fifo["quantiles"]["wait_seconds"][-1] == 1480


def test_an_oracle_is_told_of_in_every_row_and_at_the_head() -> None:
    value = found(knows_run_times=True)
    assert value["model"]["run_times"] == "known" and {p["run_times"] for p in value["policies"]} == {"known"}
    assert figures.labels(value) == ["fifo (run times: known)", "las (run times: known)"]
    heads = [words(head) for head in page(value).iter("th")]
    assert sum("run times: known" in head for head in heads) >= 4
    assert "run times: known" not in report(found())


def test_a_report_has_every_figure() -> None:
    value = found()
    told = words(page(value))
    for figure in FIGURES:
        for policy in value["policies"]:
            assert figure.name in told and cell(figure, policy) in told
    for row in rows(value):
        assert all(text in told for text in row)
    for policy in value["policies"]:
        for row in figures.queue_rows(policy):
            assert all(text in told for text in row)
    for text in ("ab" * 32, "by-hand.csv", "1x8xV100", value["model"]["ties"], "from 0"):
        assert text in told


def test_a_ratio_stands_beside_what_has_a_bound() -> None:
    value = found()
    table = {row[0]: row[1:] for row in rows(value)}
    policy = value["policies"][0]
    assert table["average JCT"][0].endswith(f"({pick(policy, 'metrics.average_jct_ratio'):.3f})")
    assert table["makespan"][-1] == seconds(policy["bounds"]["makespan_seconds"]) and table["p99 wait"][-1] == ""
    assert pick(policy, "metrics.average_jct_ratio") >= 1 <= pick(policy, "metrics.makespan_ratio")


def test_every_plot_has_axes_a_legend_and_words_to_point_at() -> None:
    drawn = pictures(found())
    assert {"allocation", "queue-length", "wait", "jct", "unusable", "queues-0", "queues-1"} == set(drawn)
    for name, plot in drawn.items():
        svg = ElementTree.fromstring(plot)
        texts = [words(text) for text in svg.iter(f"{SVG}text")]
        assert svg.get("aria-label") and len(texts) > 6, name
        assert [title for title in svg.iter(f"{SVG}title") if title.text], name
        if not name.startswith("queues"):
            assert {"fifo", "las"} <= set(texts), name


def test_a_picture_stands_alone() -> None:
    picture = ElementTree.fromstring(plots.alone(pictures(found())["wait"]))
    assert picture.tag == f"{SVG}svg" and picture.find(f"{SVG}style") is not None


def test_a_trace_cannot_write_into_a_report() -> None:
    trace = a_trace(
        f"{BLOCKED}, d 30 10 1 @{EVIL.replace(' ', '')}",
        notes=(EVIL,),
        source=EVIL,
        time_zero=EVIL,
        name=EVIL,
        dropped={EVIL: 1},
    )
    text = report(found(trace))
    assert "<script" not in text and "\x00" not in text and "\x1b" not in text
    read = ElementTree.fromstring(text)
    assert not list(read.iter("script")) and "<script>alert(1)</script>" in words(read)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)  # it asks nobody for anything


def test_markup_escapes_all_but_elements() -> None:
    assert safe("<a>&'\"") == "&lt;a&gt;&amp;&#x27;&quot;"
    assert tag("p", "<", tag("b", "x"), kind='"') == '<p class="&quot;">&lt;<b>x</b></p>'
    assert tag("line", x1=3, stroke_dasharray=None) == '<line x1="3"/>'


@pytest.mark.parametrize(("end", "unit"), [(20.0, "seconds"), (3600.0, "minutes"), (86400.0, "hours"), (1e7, "days")])
def test_time_is_told_in_a_unit_that_suits_it(end: float, unit: str) -> None:
    axis = axes.of_time(end)
    assert axis.label.endswith(unit) and 3 <= len(axis.marks) <= 10
    assert axis.part(0) == 0 and axis.part(end) == 1 and all(value <= end for value, _ in axis.marks)


def test_axes_hold_what_they_are_made_for() -> None:
    spans = axes.of_spans(3.0, 5000.0, "wait")
    assert (spans.low, spans.high) == (1.0, 36000.0) and spans.part(0.0) == 0 and 0 < spans.part(600) < 1
    assert axes.of_spans(1.0, 1.0, "").high > 1.0 and axes.of_spans(0.1, 1e12, "").high == 1e12
    counts = axes.of_counts(0.0, "jobs")
    assert counts.high > 0 and counts.marks[0] == (0, "0")
    assert axes.of_shares("", 0.03).high == 0.04 and axes.of_shares("").marks[-1] == (1.0, "100 %")


def test_times_as_people_read_them() -> None:
    assert [seconds(value) for value in (0.04, 59.94, 61, 3599.6, 3600, 86400, 172800, -90)] == [
        *("0.0s", "59.9s", "1m01s", "1h00m", "1h00m", "24h00m", "2d00h", "-1m30s"),
    ]


def test_nodes_are_told_as_they_are_given() -> None:
    assert shapes(nodes_of_text("2x8xV100,1x4xT4")) == ["2x8xV100", "1x4xT4"]
