"""`gs://BUCKET/x` is also readable at `/gcs/BUCKET/x` in a container of Vertex AI (contract, section 7).

Nothing is mounted here: where such a bucket is a folder of this machine, the paths that a job names are turned into that folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .spec import JobSpec

_MOUNT = re.compile(r"(?<![\w/.-])/gcs/([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?![\w.-])")


def mounted_buckets(spec: JobSpec) -> set[str]:
    """The buckets that the commands and variables of containers name."""
    return {match[1] for text in _texts(spec) for match in _MOUNT.finditer(text)}


def unmounted(text: str, buckets: Mapping[str, str]) -> str:
    """The text with the folders of buckets in the place of their mounts."""
    return _MOUNT.sub(lambda match: buckets.get(match[1], match[0]), text)


def _texts(spec: JobSpec) -> Iterator[str]:
    for group in spec.groups:
        if group.image:
            yield from (*group.command, *group.args, *group.env.values(), *spec.program.args)
