"""Bodies of jobs, and what comes back, in one line each."""

from __future__ import annotations

from typing import Any

import httpx
from hypothesis import strategies as st

JOBS = "/v1/projects/p/jobs"
PACKAGE = "gs://some-bucket/trainer-0.0.0.tar.gz"

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=())),  # halves of characters too
    st.sampled_from(["", "\x00", "gs://", "gs://../..", "NVIDIA_TESLA_T4", "n1-standard-4", "CUSTOM", "-1", "1e9"]),
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
"""Any JSON, halves of characters and traps included."""


def a_training(**changes: Any) -> dict[str, Any]:
    """A TrainingInput that is in order; a field that is changed to None is left out."""
    whole = {
        "scaleTier": "BASIC",
        "region": "us-central1",
        "pythonModule": "trainer.task",
        "packageUris": [PACKAGE],
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def a_job_body(name: str = "j", *, labels: Any = None, **training: Any) -> dict[str, Any]:
    """A Job that is in order."""
    body: dict[str, Any] = {"jobId": name, "trainingInput": a_training(**training)}
    return body if labels is None else {**body, "labels": labels}


def custom(**training: Any) -> dict[str, Any]:
    """A Job of the tier CUSTOM with a master that is in order."""
    return a_job_body(**{"scaleTier": "CUSTOM", "masterType": "n1-standard-4", **training})


def violations(answer: httpx.Response) -> dict[str, str]:
    """Field → description of every violation in an answer that has the contract's error shape."""
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    detail = error["details"][0]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    found = {v["field"]: v["description"] for v in detail["fieldViolations"]}
    first = next(iter(found))
    assert error["message"] == f"Field: {first} Error: {found[first]}"
    return found


def a_run(name: str = "r", **changes: Any) -> dict[str, Any]:
    """A command in order."""
    return {"name": name, "command": ["true"], **changes}
