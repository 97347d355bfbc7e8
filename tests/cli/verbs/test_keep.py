"""`stoker keep`, as it is typed."""

from __future__ import annotations

import time

from stoker.core.job import KEEP
from tests.cli.conftest import Cli
from tests.conftest import Server


def test_a_job_is_kept_and_kept_no_longer(served: Cli, server: Server) -> None:
    assert served("run", "--name", "kept", "--labels", "team=x", "--async", "--", "sleep", "60").code == 0
    assert served("keep", "kept", "2h").code == 0
    labels = server.client.details("local", "kept")["labels"]
    assert labels["team"] == "x" and abs(int(labels[KEEP]) - time.time() - 7200) < 60
    assert "kept no longer" in served("keep", "kept", "0").err
    assert server.client.details("local", "kept")["labels"] == {"team": "x"}
    server.client.cancel("local", "kept")


def test_what_cannot_be_kept(served: Cli) -> None:
    for time_text, problem in (("8d", "longer than a week"), ("soon", "soon"), ("-2h", "-2h")):
        ran = served("keep", "none", "--", time_text)
        assert ran.code != 0 and problem in ran.err, ran
    assert "no job local/none" in served("keep", "none", "1h").err
