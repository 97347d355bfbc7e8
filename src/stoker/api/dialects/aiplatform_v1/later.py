"""The parts of AI Platform v1 that are in its contract and not served here: each answers 501, and says so."""

from __future__ import annotations

from stoker.api.not_served import not_served

router = not_served(
    "/v1/projects/{project}",
    {
        "models": "models and online prediction are not served by this Stoker yet",
        "operations": "long-running operations are not served by this Stoker yet",
        "locations/{location}/operations": "long-running operations are not served by this Stoker yet",
        "locations/{location}/studies": "studies (Vizier) are not served by this Stoker",
    },
)
