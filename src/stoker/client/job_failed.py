"""The error of a job that did not succeed. No server answers it: it is raised where somebody waits."""

from __future__ import annotations

from stoker.core.errors import StokerError


class JobFailed(StokerError):
    """The job did not succeed."""

    code = "job_failed"

    def __init__(self, name: str, state: str, exit_code: int, message: str) -> None:
        """`state`: FAILED or CANCELLED. `exit_code`: of the replica that failed first, or 1. `message`: why."""
        self.name = name
        self.state = state
        self.exit_code = exit_code
        said = f": {message}" if message else ""
        super().__init__(f"{name} {state}{said}", fix="job.logs() shows what it printed, job.explain() why it ended")
