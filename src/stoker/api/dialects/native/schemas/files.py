"""Files of buckets."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says


class Uploaded(TypedDict):
    """A file that was written."""

    uri: Annotated[str, says("Its address.", "gs://my-bucket/data.zip")]
    size: Annotated[int, says("Its size in bytes.", 1048576)]
