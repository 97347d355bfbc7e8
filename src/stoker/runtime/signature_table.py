r"""The signs by which failures are known, in the texts of frameworks, the C library, installers and the kernel: one table.

Those of the program itself, and of what it is made of, stand in program_signatures.py; failure_signatures.py looks for them,
what they mean for people in scheduling/failures.py.
"""

from __future__ import annotations

from .program_signatures import PROGRAM_SIGNATURES
from .signature_row import ANYWHERE, AS_EXIT_CODE, BEFORE, CAUSE, EFFECT, ELSEWHERE, KERNEL, NEVER, Signature


def _xid(*numbers: int) -> str:
    return r"NVRM: Xid \(PCI:[^)]*\): (?:" + "|".join(map(str, numbers)) + r")\b"


_NVLINK_XIDS = (74, *range(144, 151))
_RESET_XIDS = (46, 62, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)

SIGNATURES: "tuple[Signature, ...]" = (
    # What the kernel says. The Xids by their action: NVIDIA's catalogue.
    Signature("GPU_LOST", ELSEWHERE, KERNEL, (_xid(79), r"NVRM: GPU .* has fallen off the bus")),
    Signature("GPU_ECC", ELSEWHERE, KERNEL, (_xid(48, 63, 64, 94, 95),)),
    Signature("GPU_NVLINK", ELSEWHERE, KERNEL, (_xid(*_NVLINK_XIDS),)),
    Signature("GPU_NEEDS_RESET", ELSEWHERE, KERNEL, (_xid(*_RESET_XIDS),)),
    Signature("HOST_OOM", NEVER, KERNEL, (r"[Oo]ut of memory: Killed process \d+", r"oom_kill of its control group")),
    # The GPU and its driver.
    Signature(
        "GPU_LOST",
        ELSEWHERE,
        CAUSE,
        (r"Unable to determine the device handle for GPU.*(?:GPU is lost|Unknown Error)", r"\bGPU is lost\b"),
    ),
    Signature(
        "GPU_ECC",
        ELSEWHERE,
        CAUSE,
        (r"uncorrectable ECC error encountered", r"\bcudaErrorECCUncorrectable\b", r"\bCUDA_ERROR_ECC_UNCORRECTABLE\b"),
    ),
    Signature(
        "GPU_NVLINK",
        ELSEWHERE,
        CAUSE,
        (r"uncorrectable NVLink error", r"\bcudaErrorNvlinkUncorrectable\b", r"\bCUDA_ERROR_NVLINK_UNCORRECTABLE\b"),
    ),
    Signature(
        "DRIVER_MISMATCH",
        ELSEWHERE,
        CAUSE,
        (
            r"Driver/library version mismatch",
            r"NVML/RM version mismatch",
            r"system has unsupported display driver / cuda driver combination",
            r"kernel version [\d.]+ does not match DSO version",
        ),
    ),
    Signature(
        "CUDA_NOT_READY", ELSEWHERE, CAUSE, (r"CUDA error: system not yet initialized", r"\bcudaErrorSystemNotReady\b")
    ),
    Signature(
        "DRIVER_TOO_OLD",
        ELSEWHERE,
        CAUSE,
        (
            r"The NVIDIA driver on your system is too old",
            r"CUDA driver version is insufficient for CUDA runtime version",
            r"PTX was compiled with an unsupported toolchain",
        ),
    ),
    Signature(
        "NO_KERNEL_IMAGE",
        ELSEWHERE,
        CAUSE,
        (
            r"no kernel image is available for execution on the device",
            r"\bCUDA_ERROR_NO_BINARY_FOR_GPU\b",
            r"FlashAttention only supports Ampere GPUs or newer",
            r"CUDA error: invalid device function",
        ),
    ),
    Signature(
        "GPU_BUSY",
        ELSEWHERE,
        CAUSE,
        (r"CUDA-capable device(?:s are|\(s\) is/are) busy or unavailable", r"\bcudaErrorDevicesUnavailable\b"),
    ),
    Signature("REFUSED", NEVER, CAUSE, (r"^stoker: refused: ",)),  # frameworks/messages.py
    Signature(
        "CPU_BUILD",
        NEVER,
        CAUSE,
        (
            r"Torch not compiled with CUDA enabled",
            r"module 'torch\._C' has no attribute '_(?:cuda|nccl)",
            r"Distributed package doesn't have NCCL",
            r"torch\.cuda\.is_available\(\) is False\. If you are running on a CPU-only machine",
            r"Cannot query accelerators? .*CPU-only",
        ),
    ),
    Signature(
        "CUDA_LIBRARY",
        NEVER,
        CAUSE,
        (
            r"[Ee]rror\b.{0,200}\bCUDNN_STATUS_(?!SUCCESS|NOT_SUPPORTED)\w+",
            r"[Ee]rror\b.{0,200}\bCUBLAS_STATUS_(?!SUCCESS|ALLOC_FAILED|NOT_SUPPORTED)\w+",
            r"cuDNN failed to initialize",
            r"Could not create cudnn handle",
            r"DNN library is not found",
        ),
    ),
    Signature(
        "BAD_GPU_NUMBER", NEVER, CAUSE, (r"CUDA error: invalid device ordinal", r"\bCUDA_ERROR_INVALID_DEVICE\b")
    ),
    Signature(
        "NO_GPU",
        ELSEWHERE,
        CAUSE,
        (
            r"RuntimeError: No CUDA GPUs are available",
            r"Error.*no CUDA-capable device is detected",
            r"RuntimeError: Found no NVIDIA driver on your system",
            r"RuntimeError: Unable to initialize backend '(?:cuda|gpu|rocm|tpu)'",
            r"But your machine only has: \[\]",
            r"MisconfigurationException: No supported gpu backend found",
            r"(?:Error|Exception): .*[Nn]o GPUs? (?:is |are )?(?:found|available|detected)",
            r"(?:Error|Exception): .*[Nn]o CUDA GPUs? ",
            r"NVMLError_LibraryNotFound|NVML Shared Library Not Found",
        ),
    ),
    # Memory.
    Signature(
        "CUDA_OOM",
        NEVER,
        CAUSE,
        (
            r"(?:CUDA|HIP) out of memory\. Tried to allocate",
            r"\bCUDA error: out of memory\b",
            r"Cuda failure '?out of memory",
            r"\bCUDA_ERROR_OUT_OF_MEMORY\b",
            r"\bcudaErrorMemoryAllocation\b",
            r"\bCUBLAS_STATUS_ALLOC_FAILED\b",
            r"OOM when allocating tensor with shape",
            r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate request)",
        ),
    ),
    Signature(
        "SHARED_MEMORY",
        NEVER,
        CAUSE,
        (
            r"insufficient shared memory \(shm\)",
            r"DataLoader worker .*killed by signal: Bus error",
            r"unable to allocate shared memory\(shm\) for file",
            r"unable to (?:open|resize|write to) (?:shared memory object|file) </torch_",
        ),
    ),
    Signature(
        "HOST_OOM",
        NEVER,
        CAUSE,
        (
            r"DataLoader worker .*is killed by signal: Killed",
            r"Detected \d+ oom[_-]kill event",
            r"The exit codes of the workers are \{.*SIGKILL\(-9\)",
        ),
    ),
    Signature(
        "MEMORY_ERROR",
        NEVER,
        CAUSE,
        (
            BEFORE + r"MemoryError(?::|$)",
            r"\bnumpy\.(?:_?core\._exceptions\.)?_ArrayMemoryError\b",
            r"\bstd::bad_alloc\b",
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
            r"\[Errno 12\] Cannot allocate memory",
        ),
    ),
    # The program on the GPU.
    Signature(
        "DEVICE_ASSERT",
        NEVER,
        CAUSE,
        (
            r"device-side assert triggered",
            r": block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion",
            r"\bCUDA_ERROR_ASSERT\b",
        ),
    ),
    Signature(
        "ILLEGAL_ACCESS",
        AS_EXIT_CODE,
        CAUSE,
        (
            r"an illegal memory access was encountered",
            r"\bCUDA_ERROR_ILLEGAL_ADDRESS\b",
            r"CUDA error: (?:misaligned address|unspecified launch failure|an illegal instruction was encountered)",
            r"\bCUDA_ERROR_LAUNCH_FAILED\b",
        ),
    ),
    # Disks and limits of the machine.
    Signature("DISK_FULL", ELSEWHERE, CAUSE, ()),  # told by the disk itself
    Signature("NO_SPACE", ELSEWHERE, CAUSE, (r"No space left on device", r"\bENOSPC\b")),
    Signature("DISK_QUOTA", NEVER, CAUSE, ()),  # told by its supervisor: work_folder.py
    Signature("NOT_DISTRIBUTED", NEVER, CAUSE, ()),  # told by its supervisor, too
    Signature("FILE_SYSTEM_QUOTA", NEVER, CAUSE, (r"Disk quota exceeded",)),
    Signature("SANDBOX", NEVER, CAUSE, ()),  # READ_ONLY, PERMISSION or NO_SUCH_FILE where the sandbox is why
    Signature("READ_ONLY", ELSEWHERE, CAUSE, (r"\bRead-only file system\b",)),
    Signature(
        "STORAGE",
        ELSEWHERE,
        CAUSE,
        (
            r"\[Errno 5\] Input/output error",
            r"\[Errno 116\] Stale file handle",
            r"\[Errno 107\] Transport endpoint is not connected",
            r": (?:Input/output error|Stale file handle|Transport endpoint is not connected)$",
        ),
    ),
    Signature(
        "OPEN_FILES",
        NEVER,
        CAUSE,
        (r"\bToo many open files\b", r"RuntimeError: received 0 items of ancdata"),
    ),
    Signature(
        "PROCESSES",
        ELSEWHERE,
        CAUSE,
        (
            r"RuntimeError: can't start new thread",
            r"\bpthread_create failed\b",
            r"libgomp: Thread creation failed",
            r"(?:BlockingIOError: \[Errno 11\]|fork(?:ing)?\b.*:) Resource temporarily unavailable",
        ),
    ),
    *PROGRAM_SIGNATURES,
    Signature("PORT_IN_USE", ANYWHERE, CAUSE, (r"\b[Aa]ddress already in use\b", r"\bEADDRINUSE\b")),
    Signature(
        "LOGIN",
        NEVER,
        CAUSE,
        (
            r"api_key not configured \(no-tty\)",
            r"Cannot access gated repo|\bGatedRepoError\b|Access to model .* is restricted",
            r"\b(?:401|403) (?:Client Error|Forbidden|Unauthorized)\b|HTTP Error 40[13]: ",
            r"Could not find kaggle\.json|OSError: Could not find .*kaggle",
            r"\bDefaultCredentialsError\b|\bNoCredentialsError\b|Unable to locate credentials",
            r"Invalid (?:username or password|user token)|\bLocalTokenNotFoundError\b",
        ),
    ),
    Signature(
        "DOWNLOAD",
        AS_EXIT_CODE,
        CAUSE,
        (
            r"[Cc]ouldn't connect to 'https?://",
            r"couldn't connect to '[^']*' to load",
            r"\bLocalEntryNotFoundError\b|outgoing traffic has been disabled",
            r"\b(?:429|5\d\d) (?:Client|Server) Error\b|HTTP Error (?:404|429|5\d\d)|\b404 Client Error\b",
            r"requests\.exceptions\.(?:ConnectionError|SSLError|ProxyError|ConnectTimeout|ReadTimeout)",
            r"urllib\.error\.URLError: (?!.*(?:name resolution|Name or service))",
            r"\bURL fetch failure on \S+",
            r"is not a local folder and is not a valid model identifier",
            r"CERTIFICATE_VERIFY_FAILED",
        ),
    ),
    # What often follows from another sign, so these come last among the causes.
    Signature(
        "PERMISSION",
        NEVER,
        CAUSE,
        (
            BEFORE + r"PermissionError: \[Errno (?:1|13)\]",
            r"^(?:/\S+|\w+): .*: Permission denied$",
            r"PermissionDeniedError:",
        ),
    ),
    Signature(
        "NO_SUCH_FILE",
        NEVER,
        CAUSE,
        (
            BEFORE + r"FileNotFoundError: ",
            r"can't open file '.*': \[Errno 2\]",
            r"NotFoundError:.*No such file or directory",
            r"^(?:/\S+|\w+): .*: No such file or directory$",
        ),
    ),
    Signature(
        "NAME_RESOLUTION",
        AS_EXIT_CODE,
        CAUSE,
        (
            r"Temporary failure in name resolution",
            r"\[Errno -[235]\] Name or service not known",
            r"\bgetaddrinfo failed\b",
        ),
    ),
    # What is most often the effect of a peer's end.
    Signature(
        "COLLECTIVE_TIMEOUT",
        ANYWHERE,
        EFFECT,
        (
            r"Watchdog caught collective operation timeout",
            r"Some NCCL operations have failed or timed out",
            r"\bncclCommWatchdog\b",
            r"Watchdog thread terminated with exception",
            r"\bRendezvous(?:Timeout|Connection)Error\b",
            r"The client socket has timed out after",
            r"Timed out waiting \d+ms for (?:send|recv) operation to complete",
            r"DistStoreError: (?:Timed out|wait timeout)",
            r"(?:wait timeout after|Timeout waiting for key:?|Socket Timeout)\b.*(?:key|store|\d+ms)",
            r"DEADLINE_EXCEEDED: (?:Barrier timed out|GetKeyValue\(\) timed out)",
        ),
    ),
    Signature(
        "COLLECTIVE",
        ANYWHERE,
        EFFECT,
        (
            r"\bncclUnhandledCudaError\b",
            r"\bnccl(?:System|Remote|Internal)Error\b",
            r"\bNCCL (?:error|ERROR) in\b",
            r"NCCL WARN .*(?:failed|unhandled system error)",
        ),
    ),
    Signature(
        "PEER_GONE",
        ANYWHERE,
        EFFECT,
        (
            r"\bConnection (?:reset|closed) by peer\b",
            r"\bBroken pipe\b",
            r"UNAVAILABLE: (?:Socket closed|.*failed to connect|Connection reset|.*Task .* (?:heartbeat|unhealthy))",
            r"\bUnavailableError\b.*(?:Socket closed|failed to connect)",
            r"JAX distributed service detected fatal errors",
            r"The tasks? (?:have|has) crashed|stopped sending heartbeats",
        ),
    ),
    Signature("CONNECTION_REFUSED", ANYWHERE, EFFECT, (r"\bConnection refused\b", r"\bConnectionRefusedError\b")),
)

AGAIN = {sign.code: sign.again for sign in SIGNATURES}
"""Code → what the sign says about trying again."""

EFFECTS = frozenset(sign.code for sign in SIGNATURES if sign.rank == EFFECT)
"""The signs that a peer's end would explain."""
