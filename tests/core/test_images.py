"""Which environment stands in for an image."""

from __future__ import annotations

import pytest

from stoker.core.images import PREBUILT, stand_in

IMAGES = {"gcr.io/me/*": ("mine",), "gcr.io/me/special:*": ("special",), "gcr.io/me/special:1": ("one",)}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("gcr.io/me/a/b:tag", ("mine",)),
        ("gcr.io/me/special:2", ("special",)),
        ("gcr.io/me/special:1", ("one",)),
        ("gcr.io/you/a", None),
        ("", None),
    ],
)
def test_the_nearest_pattern_wins(image: str, expected: tuple[str, ...] | None) -> None:
    assert stand_in(IMAGES, image) == expected


@pytest.mark.parametrize(
    ("image", "is_prebuilt"),
    [
        ("us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest", True),
        ("europe-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-1.py310", True),
        ("gcr.io/deeplearning-platform-release/tf2-cpu.2-11", True),
        ("us-docker.pkg.dev/my-project/my-repo/my-image", False),
    ],
)
def test_googles_own_images_are_known(image: str, is_prebuilt: bool) -> None:
    assert (stand_in({pattern: ("python",) for pattern in PREBUILT}, image) is not None) == is_prebuilt
