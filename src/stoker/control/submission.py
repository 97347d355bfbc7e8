"""What a user submits, in whichever dialect: `Commands.submit` writes it, `would_submit` says what it would write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.job import Request
from stoker.core.spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of the request that refusals are put on: each dialect has its own, v1's are the default."""

    shape: str = "scale_tier"
    image: str = "master_config.image_uri"
    files: str = "package_uris"
    folders: str = "job_dir"
    queue: str = "job.labels.stoker-queue"


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that is to be."""

    project: str
    name: str
    spec: JobSpec
    request: Request  # as it was sent
    owner: str
    labels: Mapping[str, str] = field(default_factory=dict)
    rehearse: bool = False  # on virtual nodes that are made for it
    fields: Fields = field(default_factory=Fields)
