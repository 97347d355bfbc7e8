"""Where jobs are made, dialect by dialect: what is sent there, what it means, and the shape in which it is refused.

What a body means is worked out here a second time, from Google's discovery documents and the rules of proto3 JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import googleapiclient.discovery_cache
import httpx
from hypothesis import HealthCheck, settings

from tests.api.bodies import PACKAGE, a_job_body, custom

REFUSED = {
    400: ("INVALID_ARGUMENT", "FAILED_PRECONDITION"),
    404: ("NOT_FOUND",),
    409: ("ALREADY_EXISTS", "ABORTED"),
    413: ("OUT_OF_RANGE",),
    415: ("INVALID_ARGUMENT",),
    501: ("UNIMPLEMENTED",),
}
"""Status → the names that it goes by (contract 0.1)."""

_numbers = count(1)

ACCELERATORS = ["ACCELERATOR_TYPE_UNSPECIFIED", "NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_V100"]
ACCELERATORS += ["NVIDIA_TESLA_P4", "NVIDIA_TESLA_T4", "TPU_V2", "TPU_V3", "NVIDIA_TESLA_A100"]
"""By their numbers on the wire, from 0."""

T4 = {"acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_T4"}}


@dataclass(frozen=True)
class Door:
    """Where jobs of a dialect are made, what is sent there, and the schema of it."""

    document: str
    schema: str
    parent: str
    collection: str
    bodies: tuple[dict[str, Any], ...]
    numbers: Mapping[str, Mapping[str, int]]  # field → the numbers of its names: the document does not tell them

    def path(self, project: str) -> str:
        """The address of the jobs of a project."""
        return f"/v1/projects/{project}{self.parent}/{self.collection}"

    def name(self, shown: Mapping[str, Any]) -> str:
        """The last word of a job's address."""
        return str(shown["name"].rpartition("/")[2] if "name" in shown else shown["jobId"])


def numbered(*names: str) -> dict[str, int]:
    """Names of an enum by their numbers from 0."""
    return {name: number for number, name in enumerate(names)}


ML = Door(
    document="ml.v1",
    schema="GoogleCloudMlV1__Job",
    parent="",
    collection="jobs",
    bodies=(
        a_job_body(labels={"team": "ml"}, args=["--epochs", "3"], jobDir="gs://some-bucket/out"),
        custom(
            name="whole",
            labels={"team": "ml", "empty": ""},
            masterConfig={**T4, "diskConfig": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 9}},
            workerType="n1-standard-4",
            workerCount="2",
            parameterServerType="n1-highmem-8",
            parameterServerCount="1",
            evaluatorType="n1-standard-4",
            evaluatorCount="1",
            args=["a", ""],
            scheduling={"maxRunningTime": "7200s", "maxWaitTime": "3600.5s", "priority": 3},
            encryptionConfig={"kmsKeyName": "k"},
            network="n",
            useChiefInTfConfig=False,
            enableWebAccess=True,
        ),
        {
            "jobId": "image",
            "trainingInput": {
                "scaleTier": "CUSTOM",
                "region": "us-central1",
                "masterType": "n1-standard-4",
                "masterConfig": {"imageUri": "gcr.io/p/i", "containerCommand": ["c"], "containerArgs": ["--a", "$(B)"]},
                "workerType": "n1-standard-4",
                "workerCount": "1",
                "workerConfig": {**T4, "imageUri": "gcr.io/p/w"},
            },
        },
    ),
    numbers={
        "scaleTier": {"BASIC": 0, "STANDARD_1": 1, "PREMIUM_1": 3, "CUSTOM": 5, "BASIC_GPU": 6, "BASIC_TPU": 7},
        "type": numbered(*ACCELERATORS),
    },
)
VERTEX = Door(
    document="aiplatform.v1",
    schema="GoogleCloudAiplatformV1CustomJob",
    parent="/locations/us-central1",
    collection="customJobs",
    bodies=(
        {
            "displayName": "an image",
            "labels": {"team": "ml"},
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {"machineType": "n1-standard-4"},
                        "replicaCount": "1",
                        "containerSpec": {"imageUri": "gcr.io/p/i", "args": ["--a"]},
                    }
                ]
            },
        },
        {
            "displayName": "all pools",
            "encryptionSpec": {"kmsKeyName": "k"},
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {
                            "machineType": "n1-standard-4",
                            "acceleratorType": "NVIDIA_TESLA_T4",
                            "acceleratorCount": 1,
                            "reservationAffinity": {"reservationAffinityType": "NO_RESERVATION"},
                        },
                        "replicaCount": "1",
                        "containerSpec": {
                            "imageUri": "gcr.io/p/i",
                            "command": ["python", "-m", "a"],
                            "args": ["", "$(SEED)", "$$(SEED)"],
                            "env": [{"name": "SEED", "value": "1"}, {"name": "NOTHING", "value": ""}],
                        },
                        "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                    },
                    {},
                    {
                        "machineSpec": {"machineType": "n1-highmem-8"},
                        "replicaCount": "2",
                        "containerSpec": {"imageUri": "gcr.io/p/ps"},
                    },
                ],
                "scheduling": {
                    "timeout": "7200s",
                    "restartJobOnWorkerRestart": False,
                    "disableRetries": True,
                    "strategy": "STANDARD",
                    "maxWaitDuration": "3600.5s",
                },
                "baseOutputDirectory": {"outputUriPrefix": "gs://some-bucket/out"},
                "serviceAccount": "a@b",
                "network": "n",
                "enableWebAccess": False,
                "reservedIpRanges": ["r"],
            },
        },
        {
            "displayName": "a package",
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {"machineType": "n1-standard-4"},
                        "replicaCount": "1",
                        "pythonPackageSpec": {
                            "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11:latest",
                            "packageUris": [PACKAGE],
                            "pythonModule": "trainer.task",
                            "args": ["--epochs", "3"],
                            "env": [{"name": "SEED", "value": "1"}],
                        },
                    }
                ]
            },
        },
    ),
    numbers={
        "acceleratorType": numbered(*ACCELERATORS, "NVIDIA_A100_80GB", "TPU_V4_POD", "NVIDIA_L4"),
        "strategy": numbered("STRATEGY_UNSPECIFIED", "ON_DEMAND", "LOW_COST", "STANDARD", "SPOT"),
        "reservationAffinityType": numbered(
            "TYPE_UNSPECIFIED", "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION"
        ),
    },
)
DOORS = (ML, VERTEX)


@cache
def schemas(document: str) -> dict[str, Any]:
    """The schemas of a discovery document."""
    path = Path(googleapiclient.discovery_cache.__file__).parent / "documents" / f"{document}.json"
    found: dict[str, Any] = json.loads(path.read_text())["schemas"]
    return found


def camel(name: str) -> str:
    """`master_config` → `masterConfig`."""
    return re.sub("_([a-z0-9])", lambda letter: letter[1].upper(), name)


def canonical(door: Door, value: Any, schema: Mapping[str, Any], name: str = "") -> Any:
    """A value of a field in the one spelling that proto3 JSON writes. Fails for a value that the field cannot have."""
    if "$ref" in schema:
        return canonical_message(door, value, schema["$ref"])
    if schema.get("type") == "array":
        assert isinstance(value, list)
        return [canonical(door, part, schema["items"], name) for part in value]
    if "additionalProperties" in schema:
        assert isinstance(value, dict)
        return {key: canonical(door, part, schema["additionalProperties"]) for key, part in value.items()}
    assert not isinstance(value, list | dict | None), (name, value)
    if "enum" in schema and not isinstance(value, str):
        return next(word for word, number in door.numbers[name].items() if number == value)
    match schema.get("format", schema["type"]):
        case "boolean":
            return value if isinstance(value, bool) else {"true": True, "false": False}[value.lower()]
        case "int64":
            return str(int(value))
        case "int32":
            return int(value)
        case "double":
            return float(value)
        case _:
            assert not isinstance(value, bool), (name, value)
            return value if isinstance(value, str) else json.dumps(value)


def canonical_message(door: Door, value: Any, schema: str) -> dict[str, Any]:
    """What a message of a request holds: null is nothing, and fields of answers are ignored."""
    assert isinstance(value, dict)
    properties = schemas(door.document)[schema]["properties"]
    named = [(camel(key), part) for key, part in value.items() if part is not None]
    assert len({name for name, _ in named}) == len(named), "a field that is given twice has no one meaning"
    return {
        name: canonical(door, part, properties[name], name)
        for name, part in named
        if not is_of_answers(properties[name])
    }


def is_of_answers(schema: Mapping[str, Any]) -> bool:
    """Whether a field is of answers only; the document says so of most of them in words."""
    return bool(
        schema.get("readOnly") or re.match("Output only|The current (training|prediction)", schema["description"])
    )


def is_well_formed(answer: httpx.Response) -> None:
    """A refusal is the caller's mistake, or something in the contract that is not served, in the shape of contract 0.1."""
    assert answer.status_code in REFUSED, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/json")
    is_error(answer.status_code, answer.json())


def is_error(status: int, body: Any) -> None:
    """The shape of an error."""
    error = body["error"]
    assert body.keys() == {"error"} and error.keys() >= {"code", "message", "status"}
    assert (error["code"], bool(error["message"])) == (status, True)
    assert error["status"] in REFUSED[status]
    if status == 400:
        (detail,) = error["details"]
        assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
        first = detail["fieldViolations"][0]
        assert all(v.keys() == {"field", "description"} and v["description"] for v in detail["fieldViolations"])
        assert error["message"] == f"Field: {first['field']} Error: {first['description']}"


def quick(examples: int) -> settings:
    """How much is tried. The server is the same for all examples."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def a_project() -> str:
    """A project that was not used before."""
    return f"p{next(_numbers)}"
