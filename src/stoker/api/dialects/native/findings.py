"""What is wrong with how a job trains, and what would help."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.ids import job_id
from stoker.insight.findings import evidence as e
from stoker.insight.findings.gathering import evidence_of
from stoker.insight.findings.rules import findings

from .answers import a_router, answer, declares
from .schemas.findings import Finding, Findings
from .schemas.words import Name, Project

router = a_router("jobs")


@router.get("/projects/{project}/jobs/{name}/findings", responses=declares(Findings, 404))
def get_findings(project: Project, name: Name, request: Request) -> Response:
    """What is wrong with how a job trains, or trained last, and what would help.

    It rests on the last five minutes of what its programs tell of their steps, of what its processes use, and of what its GPUs
    show. The first finding explains those that follow it.
    """
    site = services(request)
    job = site.store.job(job_id(project, name)).job
    found = evidence_of(job, site.store, site.logs, site.monitor, site.live, site.commands.clock.now())
    steady = [window for progress in found.training for window in [found.steady(progress)] if window is not None]
    said = findings(found)
    answered: Findings = {
        "findings": [told(finding) for finding in said],
        "seconds": steady[0].seconds if steady else 0.0,
        "steps": steady[0].steps if steady else 0,
        "gpus": sum(gpu.seconds > 0 for gpu in found.gpus),
        "says_enough": bool(said or steady),
    }
    return answer(answered)


def told(finding: e.Finding) -> Finding:
    """A finding, as it is shown."""
    return {
        "code": finding.code,
        "text": finding.text,
        "action": finding.action,
        "change": finding.change,
        "replica": finding.replica,
        "source": str(finding.source),
        "confidence": str(finding.confidence),
        "evidence": list(finding.evidence),
        "is_good": finding.is_good,
    }
