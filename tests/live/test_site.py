"""The documentation as a site: every link leads somewhere, it can be searched, and nothing of it is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.live, pytest.mark.campaign]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as anybody builds it; a warning, such as of a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(["make", "site", f"SITE={folder}"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_begins_with_what_one_wants_to_do(site: Path) -> None:
    text = (site / "docs" / "index.html").read_text()
    assert "ten minutes" in text and 'href="start.html"' in text and 'href="commands.html"' in text


def test_it_can_be_searched_without_a_server(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(") and '"checkpoint"' in index and "docs/clusters" in index
    assert (site / "search.html").exists() and (site / "_static" / "searchtools.js").exists()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|link|iframe)[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"', page.read_text()
        )
        assert not fetched, page


def test_it_has_a_dark_side(site: Path) -> None:
    assert "prefers-color-scheme" in (site / "docs" / "index.html").read_text()
