"""Container images, and what runs in their place: an environment of this machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

StandIns = Mapping[str, tuple[str, ...]]
"""Image, or a pattern of images (`*` is any text) → an interpreter, and the entry point where there is one."""

PREBUILT = (
    "*-docker.pkg.dev/vertex-ai/training/*",
    "gcr.io/cloud-aiplatform/training/*",
    "*-docker.pkg.dev/deeplearning-platform-release/*",
    "gcr.io/deeplearning-platform-release/*",
)
"""Google's own images of Python with frameworks (Vertex AI, pre-built containers for training): any runtime is like them."""


def stand_in(images: StandIns, image: str) -> tuple[str, ...] | None:
    """What runs in the place of an image: by its own name, else by the longest pattern that fits; None: nothing does."""
    if image in images:
        return images[image]
    fitting = [pattern for pattern in images if fnmatchcase(image, pattern)]
    return images[max(fitting, key=len)] if fitting else None
