"""The messages of Vertex AI v1's custom jobs, field by field. Source: its discovery document, aiplatform v1.

The numbers of enums, which its own client sends: google-cloud-aiplatform 2.7.0, `aiplatform_v1.types`.
"""

from __future__ import annotations

from stoker.api.proto_json import BOOL, DURATION, INT32, INT64, STRING, Enum, ListOf, MapOf, Message, OutputOnly

JOB_STATE = Enum(
    {
        "JOB_STATE_UNSPECIFIED": 0,
        "JOB_STATE_QUEUED": 1,
        "JOB_STATE_PENDING": 2,
        "JOB_STATE_RUNNING": 3,
        "JOB_STATE_SUCCEEDED": 4,
        "JOB_STATE_FAILED": 5,
        "JOB_STATE_CANCELLING": 6,
        "JOB_STATE_CANCELLED": 7,
        "JOB_STATE_PAUSED": 8,
        "JOB_STATE_EXPIRED": 9,
        "JOB_STATE_UPDATING": 10,
        "JOB_STATE_PARTIALLY_SUCCEEDED": 11,
    }
)

ACCELERATOR_TYPE = Enum(
    {
        "ACCELERATOR_TYPE_UNSPECIFIED": 0,
        "NVIDIA_TESLA_K80": 1,
        "NVIDIA_TESLA_P100": 2,
        "NVIDIA_TESLA_V100": 3,
        "NVIDIA_TESLA_P4": 4,
        "NVIDIA_TESLA_T4": 5,
        "TPU_V2": 6,
        "TPU_V3": 7,
        "NVIDIA_TESLA_A100": 8,
        "NVIDIA_A100_80GB": 9,
        "TPU_V4_POD": 10,
        "NVIDIA_L4": 11,
        "TPU_V5_LITEPOD": 12,
        "NVIDIA_H100_80GB": 13,
        "NVIDIA_H100_MEGA_80GB": 14,
        "NVIDIA_H200_141GB": 15,
        "NVIDIA_B200": 16,
        "NVIDIA_GB200": 17,
        "NVIDIA_RTX_PRO_6000": 18,
    }
)

RESERVATION_AFFINITY = Message(
    "ReservationAffinity",
    {
        "reservationAffinityType": Enum(
            {"TYPE_UNSPECIFIED": 0, "NO_RESERVATION": 1, "ANY_RESERVATION": 2, "SPECIFIC_RESERVATION": 3}
        ),
        "key": STRING,
        "values": ListOf(STRING),
    },
)

MACHINE_SPEC = Message(
    "MachineSpec",
    {
        "machineType": STRING,
        "acceleratorType": ACCELERATOR_TYPE,
        "acceleratorCount": INT32,
        "gpuPartitionSize": STRING,
        "tpuTopology": STRING,
        "reservationAffinity": RESERVATION_AFFINITY,
    },
)

ENV_VAR = Message("EnvVar", {"name": STRING, "value": STRING})

CONTAINER_SPEC = Message(
    "ContainerSpec",
    {"imageUri": STRING, "command": ListOf(STRING), "args": ListOf(STRING), "env": ListOf(ENV_VAR)},
)

PYTHON_PACKAGE_SPEC = Message(
    "PythonPackageSpec",
    {
        "executorImageUri": STRING,
        "packageUris": ListOf(STRING),
        "pythonModule": STRING,
        "args": ListOf(STRING),
        "env": ListOf(ENV_VAR),
    },
)

NFS_MOUNT = Message("NfsMount", {"server": STRING, "path": STRING, "mountPoint": STRING})

LUSTRE_MOUNT = Message(
    "LustreMount", {"instanceIp": STRING, "volumeHandle": STRING, "filesystem": STRING, "mountPoint": STRING}
)

WORKER_POOL_SPEC = Message(
    "WorkerPoolSpec",
    {
        "machineSpec": MACHINE_SPEC,
        "replicaCount": INT64,
        "containerSpec": CONTAINER_SPEC,
        "pythonPackageSpec": PYTHON_PACKAGE_SPEC,
        "diskSpec": Message("DiskSpec", {"bootDiskType": STRING, "bootDiskSizeGb": INT32}),
        "nfsMounts": ListOf(NFS_MOUNT),
        "lustreMounts": ListOf(LUSTRE_MOUNT),
    },
)

SCHEDULING = Message(
    "Scheduling",
    {
        "timeout": DURATION,
        "restartJobOnWorkerRestart": BOOL,
        "disableRetries": BOOL,
        "maxWaitDuration": DURATION,
        "strategy": Enum(
            {"STRATEGY_UNSPECIFIED": 0, "ON_DEMAND": 1, "LOW_COST": 2, "STANDARD": 3, "SPOT": 4, "FLEX_START": 6}
        ),
    },
)

PSC_INTERFACE_CONFIG = Message(
    "PscInterfaceConfig",
    {
        "networkAttachment": STRING,
        "dnsPeeringConfigs": ListOf(
            Message("DnsPeeringConfig", {"domain": STRING, "targetProject": STRING, "targetNetwork": STRING})
        ),
    },
)

CUSTOM_JOB_SPEC = Message(
    "CustomJobSpec",
    {
        "workerPoolSpecs": ListOf(WORKER_POOL_SPEC),
        "scheduling": SCHEDULING,
        "baseOutputDirectory": Message("GcsDestination", {"outputUriPrefix": STRING}),
        "serviceAccount": STRING,
        "network": STRING,
        "reservedIpRanges": ListOf(STRING),
        "pscInterfaceConfig": PSC_INTERFACE_CONFIG,
        "persistentResourceId": STRING,
        "protectedArtifactLocationId": STRING,
        "tensorboard": STRING,
        "enableWebAccess": BOOL,
        "enableDashboardAccess": BOOL,
        "experiment": STRING,
        "experimentRun": STRING,
        "models": ListOf(STRING),
    },
)

CUSTOM_JOB = Message(
    "CustomJob",
    {
        "displayName": STRING,
        "jobSpec": CUSTOM_JOB_SPEC,
        "labels": MapOf(STRING),
        "encryptionSpec": Message("EncryptionSpec", {"kmsKeyName": STRING}),
        "name": OutputOnly(),
        "state": OutputOnly(JOB_STATE),
        "createTime": OutputOnly(),
        "startTime": OutputOnly(),
        "endTime": OutputOnly(),
        "updateTime": OutputOnly(),
        "error": OutputOnly(),
        "webAccessUris": OutputOnly(),
        "satisfiesPzi": OutputOnly(),
        "satisfiesPzs": OutputOnly(),
    },
)
