"""The ways in which an attempt can end without success: what each means, who is to blame, and what to do. One table.

docs/failures.md is drawn from it. By which texts a sign is known, and whether it is worth another try, stands in
runtime/failure_signatures.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from .failure_row import Blame, Failure
from .program_failures import PROGRAM_FAILURES

__all__ = ["FAILURES", "Blame", "Failure", "of_exit_code"]


_RESUME = "have it write checkpoints, and say --resumable"

_ROWS = (
    # Somebody wanted it so
    Failure("CANCELLED", "it was cancelled", "", Blame.NOBODY),
    Failure("PREEMPTED", "its place went to another job", f"it goes on by itself; {_RESUME}", Blame.NOBODY),
    Failure("DRAINED", "its node is being emptied", f"it goes on by itself; {_RESUME}", Blame.NOBODY),
    Failure("TIMED_OUT", "it ran for as long as it may", "raise scheduling.maxRunningTime", Blame.NOBODY),
    Failure(
        "WAITED_OUT", "it waited for as long as it may", "ask for less, or raise scheduling.maxWaitTime", Blame.NOBODY
    ),
    # The machine went away, or the program stood still
    Failure("NODE_LOST", "its node went away", f"it goes on by itself; {_RESUME}", Blame.NODE),
    Failure(
        "REPLICA_LOST", "a replica is gone and left no result", "see whether its machine was restarted", Blame.NODE
    ),
    Failure(
        "HUNG",
        "it hung: no output, no beat and no progress",
        "its log has what each process was doing; give it a greater --hang-timeout if it is silent for so long, or touch"
        " $STOKER_BEAT_FILE now and then",
        Blame.EITHER,
    ),
    # The GPU and its driver
    Failure(
        "GPU_LOST",
        "a GPU has fallen off the bus",
        "restart the machine; if it comes back, have it looked at",
        Blame.HARDWARE,
    ),
    Failure(
        "GPU_ECC", "a GPU has an error in its memory", "reset the GPU; if it comes back, replace it", Blame.HARDWARE
    ),
    Failure(
        "GPU_NVLINK",
        "the link between GPUs failed",
        "reset the GPUs; if it comes back, have them looked at",
        Blame.HARDWARE,
    ),
    Failure(
        "GPU_NEEDS_RESET",
        "a GPU answers no more",
        "reset the GPU: nvidia-smi --gpu-reset, or restart the machine",
        Blame.HARDWARE,
    ),
    Failure(
        "DRIVER_MISMATCH",
        "the NVIDIA driver was updated, and the old one is still loaded",
        "restart the machine, or unload the nvidia modules and load them again",
        Blame.NODE,
    ),
    Failure(
        "CUDA_NOT_READY",
        "the GPUs are not ready",
        "start nvidia-fabricmanager, in the version of the driver",
        Blame.NODE,
    ),
    Failure(
        "GPU_BUSY",
        "a GPU is busy or unavailable",
        "see who uses it: nvidia-smi; end what Stoker did not start",
        Blame.NODE,
    ),
    Failure(
        "DRIVER_TOO_OLD",
        "the NVIDIA driver is older than the program needs",
        "update the driver, or install a build of the framework for an older CUDA",
        Blame.EITHER,
    ),
    Failure(
        "NO_KERNEL_IMAGE",
        "the framework was not built for this GPU",
        "install a build for this type of GPU, or ask for another: --gpu-type",
        Blame.EITHER,
    ),
    Failure(
        "NO_GPU",
        "the program found no GPU",
        "ask for one: --gpus 1; if it did, let CUDA_VISIBLE_DEVICES be, and see nvidia-smi on the node",
        Blame.EITHER,
    ),
    Failure(
        "NOT_DISTRIBUTED",
        "it was to be distributed, and nothing shows that it was",
        "what it left may be that of each process alone; train by Keras' fit or a PyTorch loop in the main process, or leave"
        " --distribute out for a program that distributes itself",
    ),
    Failure("REFUSED", "what was asked for cannot be made true for this program", "do what the line above says"),
    Failure(
        "CPU_BUILD",
        "the program asks for CUDA, and the framework here is built without it",
        "have it run on the CPU (device='cpu', backend='gloo'); or ask for GPUs (--gpus 1) and its CUDA build: --with torch",
    ),
    Failure(
        "CUDA_LIBRARY",
        "cuDNN or cuBLAS failed",
        "most often the GPU's memory is full: a smaller batch, nobody else on the GPU (nvidia-smi); else a build for this driver",
    ),
    Failure(
        "BAD_GPU_NUMBER",
        "the program uses a GPU that it does not have",
        "ask for more GPUs, or count from 0 to $STOKER_GPUS_PER_NODE - 1",
    ),
    # Memory
    Failure(
        "CUDA_OOM",
        "the GPU has too little memory for it",
        "use a smaller batch, mixed precision or gradient checkpointing; or a GPU with more memory: --gpu-type",
    ),
    Failure(
        "HOST_OOM",
        "the machine's memory ran out, and the kernel killed it",
        "use fewer data workers or smaller buffers; ask for more: --memory",
    ),
    Failure(
        "MEMORY_ERROR",
        "it asked for more memory than it could get",
        "use fewer data workers or smaller buffers; ask for more: --memory",
    ),
    Failure(
        "SHARED_MEMORY",
        "/dev/shm is too small for its data workers",
        "use fewer data workers (num_workers), torch.multiprocessing.set_sharing_strategy('file_system'), or a larger /dev/shm",
    ),
    # The program on the GPU
    Failure(
        "DEVICE_ASSERT",
        "an assertion failed on the GPU, most often an index out of range",
        "check labels and indices; CUDA_LAUNCH_BLOCKING=1 shows the line: --env CUDA_LAUNCH_BLOCKING=1",
    ),
    Failure(
        "ILLEGAL_ACCESS",
        "the program used memory of the GPU that is not its own",
        "CUDA_LAUNCH_BLOCKING=1 shows the line: --env CUDA_LAUNCH_BLOCKING=1; if other programs fail so too, suspect the GPU",
        Blame.EITHER,
    ),
    # Disks and limits of the machine
    Failure("DISK_FULL", "a disk is full", "make room there: df -h; keep fewer checkpoints", Blame.NODE),
    Failure(
        "NO_SPACE",
        "there was no room left where it wrote",
        "make room there: df -h; keep fewer checkpoints",
        Blame.EITHER,
    ),
    Failure(
        "DISK_QUOTA",
        "it held more in its working directory than a replica may",
        "write to $STOKER_JOB_DIR, and keep fewer files; the admin can raise the limit: stoker config set job_disk_gb",
    ),
    Failure("FILE_SYSTEM_QUOTA", "the disk quota of the user is used up", "remove files, or have the quota raised"),
    Failure(
        "SANDBOX",
        "its sandbox keeps it from a path that it used",
        "use $STOKER_JOB_DIR, $HOME or the working directory; the admin can open a folder to all jobs: stoker config set"
        " job_folders FOLDER",
    ),
    Failure(
        "READ_ONLY",
        "it wrote to a file system that is read-only",
        "write to $STOKER_JOB_DIR or the working directory",
        Blame.EITHER,
    ),
    Failure(
        "STORAGE", "a disk or a network file system failed", "see the kernel's log and the file server", Blame.NODE
    ),
    Failure(
        "OPEN_FILES", "it has too many files open", "close files, use fewer data workers, or raise the limit: ulimit -n"
    ),
    Failure(
        "PROCESSES",
        "it could start no more threads or processes",
        "use fewer data workers; OMP_NUM_THREADS=1; raise the limit: ulimit -u",
        Blame.EITHER,
    ),
    *PROGRAM_FAILURES,
    Failure(
        "PORT_IN_USE",
        "a port was taken",
        "listen on $STOKER_ADDRESS or $MASTER_PORT, which are kept free",
        Blame.EITHER,
    ),
    Failure(
        "PERMISSION",
        "it may not read or write a file",
        "check the file's owner; write to $STOKER_JOB_DIR or the working directory",
    ),
    Failure(
        "NO_SUCH_FILE",
        "a file is not there",
        "stoker run copies the current folder only; name other files by full paths, or by gs://. "
        "A folder to write to, be it the job directory, has to be made first (os.makedirs)",
    ),
    Failure(
        "NAME_RESOLUTION",
        "a host name could not be looked up",
        "check the name, and the machine's network",
        Blame.EITHER,
    ),
    # Effects
    Failure(
        "COLLECTIVE_TIMEOUT",
        "it waited in vain for the others",
        "see the first error of the other replicas; NCCL_DEBUG=INFO tells more",
        Blame.EITHER,
    ),
    Failure(
        "COLLECTIVE",
        "the replicas could not talk to each other",
        "see the first error of the other replicas; NCCL_DEBUG=INFO tells more; NCCL_SOCKET_IFNAME, if set, has to name an"
        " interface of each node",
        Blame.EITHER,
    ),
    Failure(
        "PEER_GONE", "a connection to another process broke", "see the first error of the other replicas", Blame.EITHER
    ),
    Failure(
        "CONNECTION_REFUSED",
        "nobody listened where it wanted to connect",
        "see whether the other side runs, and where",
        Blame.EITHER,
    ),
    # Only the exit code speaks
    Failure("ERROR", "it ended with an error of its own", "its last lines say which: stoker logs"),
    Failure("NOT_FOUND", "a command was not found", "give its full path, or install it"),
    Failure("NOT_EXECUTABLE", "a command may not be executed", "chmod +x, or start it with its interpreter"),
    Failure("CANNOT_START", "it could not be started", "the message says why"),
    Failure("ABORTED", "it was aborted", "its last lines say why: most often an assertion in C++", Blame.EITHER),
    Failure(
        "SEGFAULT",
        "it crashed with a segmentation fault",
        "PYTHONFAULTHANDLER=1 shows where: --env PYTHONFAULTHANDLER=1",
        Blame.EITHER,
    ),
    Failure("BUS_ERROR", "it crashed with a bus error", "most often /dev/shm or a disk is full: df -h", Blame.EITHER),
    Failure("ARITHMETIC", "it crashed with an arithmetic error", "most often a whole number was divided by zero"),
    Failure(
        "ILLEGAL_INSTRUCTION",
        "it used an instruction that this processor lacks",
        "install a build for this processor",
        Blame.EITHER,
    ),
    Failure("KILLED", "it was killed from outside", "see who did: the kernel's log, other users", Blame.EITHER),
    Failure(
        "TERMINATED", "it got SIGTERM from outside", "see who sent it; machines that shut down do so", Blame.EITHER
    ),
    Failure(
        "ENDED",
        "it ended with a code that says nothing",
        "let it end with 1 to 127 for an error of its own",
        Blame.EITHER,
    ),
)

FAILURES: Mapping[str, Failure] = {row.code: row for row in _ROWS}

_BY_EXIT_CODE = {
    6: "ABORTED",
    11: "SEGFAULT",
    126: "NOT_EXECUTABLE",
    127: "NOT_FOUND",
    132: "ILLEGAL_INSTRUCTION",
    134: "ABORTED",
    135: "BUS_ERROR",
    136: "ARITHMETIC",
    137: "KILLED",
    139: "SEGFAULT",
    143: "TERMINATED",
}


def of_exit_code(code: int) -> str:
    """What a non-zero exit code alone tells."""
    return _BY_EXIT_CODE.get(code, "ERROR" if 1 <= code <= 127 else "ENDED")
