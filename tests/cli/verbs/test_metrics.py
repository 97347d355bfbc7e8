"""`stoker metrics` of a job that has told of no step and held no GPU."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli


def test_a_job_without_steps_and_gpus(served: Cli) -> None:
    assert served("run", "--name", "no_steps", "--", "true").code == 0
    ran = served("metrics", "no_steps")
    assert ran.code == 0 and "no step was seen" in ran.err and "held its machines for" in ran.err and ran.out == ""
    found = json.loads(served("metrics", "no_steps", "--json").out)
    assert found["hardware"] == [] and found["training"]["replicas"] == [] and found["state"] == "SUCCEEDED"
    assert "no job local/no_such_job" in served("metrics", "no_such_job").err
