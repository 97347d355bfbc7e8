"""The one shape of every refusal; api/errors.py makes it."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from .words import says


class Error(TypedDict):
    """Why a request was refused."""

    code: Annotated[int, says("The HTTP status.", 400)]
    status: Annotated[str, says("Its name, for programs.", "INVALID_ARGUMENT")]
    message: Annotated[str, says("What is wrong, for people.", "Field: gpu_type Error: 't5' is not an accelerator")]
    where: NotRequired[Annotated[str, says("The field that it is about, if it is about one.", "gpu_type")]]
    hint: NotRequired[Annotated[str, says("What to do, where there is something.", "stoker accelerators lists them")]]
    details: NotRequired[
        Annotated[
            list[dict[str, Any]],
            says(
                "Everything that is wrong at once: `fieldViolations`, a list of `field` and `description`.",
                [
                    {
                        "@type": "type.googleapis.com/google.rpc.BadRequest",
                        "fieldViolations": [{"field": "gpu_type", "description": "'t5' is not an accelerator"}],
                    }
                ],
            ),
        ]
    ]


class ErrorAnswer(TypedDict):
    """The body of every answer whose status is 400 or more."""

    error: Error
