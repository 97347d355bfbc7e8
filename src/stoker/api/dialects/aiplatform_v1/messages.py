"""The messages of AI Platform v1, field by field. Source: its discovery document, ml v1 revision 20251213."""

from __future__ import annotations

from stoker.api.proto_json import (
    BOOL,
    DOUBLE,
    DURATION,
    INT32,
    INT64,
    STRING,
    Any_,
    Enum,
    ListOf,
    MapOf,
    Message,
    OpenEnum,
    OutputOnly,
)

SCALE_TIER = Enum(
    {"BASIC": 0, "STANDARD_1": 1, "PREMIUM_1": 3, "CUSTOM": 5, "BASIC_GPU": 6, "BASIC_TPU": 7},
)

# The discovery document gives names only; the numbers are those of Vertex AI's enum of the same names, the last two ours.
ACCELERATORS = {
    "ACCELERATOR_TYPE_UNSPECIFIED": 0,
    "NVIDIA_TESLA_K80": 1,
    "NVIDIA_TESLA_P100": 2,
    "NVIDIA_TESLA_V100": 3,
    "NVIDIA_TESLA_P4": 4,
    "NVIDIA_TESLA_T4": 5,
    "NVIDIA_TESLA_A100": 8,
    "TPU_V2": 6,
    "TPU_V3": 7,
    "TPU_V4_POD": 10,
    "TPU_V2_POD": 101,
    "TPU_V3_POD": 102,
}

ACCELERATOR_CONFIG = Message(
    "AcceleratorConfig",
    {"count": INT64, "type": OpenEnum(ACCELERATORS)},  # open: every accelerator of the catalog may be named
)

DISK_CONFIG = Message("DiskConfig", {"bootDiskType": STRING, "bootDiskSizeGb": INT32})

REPLICA_CONFIG = Message(
    "ReplicaConfig",
    {
        "acceleratorConfig": ACCELERATOR_CONFIG,
        "imageUri": STRING,
        "containerCommand": ListOf(STRING),
        "containerArgs": ListOf(STRING),
        "diskConfig": DISK_CONFIG,
        "tpuTfVersion": STRING,
    },
)

SCHEDULING = Message("Scheduling", {"maxRunningTime": DURATION, "maxWaitTime": DURATION, "priority": INT32})

PARAMETER_SPEC = Message(
    "ParameterSpec",
    {
        "parameterName": STRING,
        "type": Enum({"PARAMETER_TYPE_UNSPECIFIED": 0, "DOUBLE": 1, "INTEGER": 2, "CATEGORICAL": 3, "DISCRETE": 4}),
        "minValue": DOUBLE,
        "maxValue": DOUBLE,
        "categoricalValues": ListOf(STRING),
        "discreteValues": ListOf(DOUBLE),
        "scaleType": Enum(
            {"NONE": 0, "UNIT_LINEAR_SCALE": 1, "UNIT_LOG_SCALE": 2, "UNIT_REVERSE_LOG_SCALE": 3},
        ),
    },
)

HYPERPARAMETER_SPEC = Message(
    "HyperparameterSpec",
    {
        "goal": Enum({"GOAL_TYPE_UNSPECIFIED": 0, "MAXIMIZE": 1, "MINIMIZE": 2}),
        "params": ListOf(PARAMETER_SPEC),
        "maxTrials": INT32,
        "maxParallelTrials": INT32,
        "maxFailedTrials": INT32,
        "hyperparameterMetricTag": STRING,
        "resumePreviousJobId": STRING,
        "enableTrialEarlyStopping": BOOL,
        "algorithm": Enum({"ALGORITHM_UNSPECIFIED": 0, "GRID_SEARCH": 1, "RANDOM_SEARCH": 2}),
    },
)

TRAINING_INPUT = Message(
    "TrainingInput",
    {
        "scaleTier": SCALE_TIER,
        "masterType": STRING,
        "workerType": STRING,
        "parameterServerType": STRING,
        "evaluatorType": STRING,
        "workerCount": INT64,
        "parameterServerCount": INT64,
        "evaluatorCount": INT64,
        "masterConfig": REPLICA_CONFIG,
        "workerConfig": REPLICA_CONFIG,
        "parameterServerConfig": REPLICA_CONFIG,
        "evaluatorConfig": REPLICA_CONFIG,
        "packageUris": ListOf(STRING),
        "pythonModule": STRING,
        "args": ListOf(STRING),
        "hyperparameters": HYPERPARAMETER_SPEC,
        "region": STRING,
        "jobDir": STRING,
        "runtimeVersion": STRING,
        "pythonVersion": STRING,
        "encryptionConfig": Message("EncryptionConfig", {"kmsKeyName": STRING}),
        "network": STRING,
        "serviceAccount": STRING,
        "scheduling": SCHEDULING,
        "useChiefInTfConfig": BOOL,
        "enableWebAccess": BOOL,
    },
)

JOB = Message(
    "Job",
    {
        "jobId": STRING,
        "trainingInput": Any_(),  # read with paths of its own: its members are reported bare (contract 0.1)
        "predictionInput": Any_(),
        "labels": MapOf(STRING),
        "etag": STRING,
        "createTime": OutputOnly(),
        "startTime": OutputOnly(),
        "endTime": OutputOnly(),
        "state": OutputOnly(),
        "errorMessage": OutputOnly(),
        "jobPosition": OutputOnly(),
        "trainingOutput": OutputOnly(),
        "predictionOutput": OutputOnly(),
    },
)
