"""The failures of the program itself: what it is made of, its data, its tensors, its checkpoints. A part of failures.py."""

from __future__ import annotations

from .failure_row import Blame, Failure

_VERSION = "install the version that the program was written for: stoker run --with 'PACKAGE<VERSION'"

PROGRAM_FAILURES = (
    # The program and what it is made of
    Failure(
        "INSTALL",
        "its packages could not be installed",
        "ask for other versions, or for another Python with --python VERSION; the lines above are the installer's own",
    ),
    Failure(
        "ABI",
        "a library does not fit the others",
        "install builds that belong together: one Python, one CUDA, one NumPy; the line above names the two",
    ),
    Failure(
        "MISSING_LIBRARY",
        "a system library is missing",
        "install it on the node, or bring it with a package",
        Blame.EITHER,
    ),
    Failure(
        "COMPILER",
        "something had to be compiled, and could not be",
        "install the compiler on the node (gcc, g++; for CUDA the toolkit of PyTorch's own version: nvcc, ptxas), or a package"
        " that is built already",
        Blame.EITHER,
    ),
    Failure(
        "OTHER_VERSION",
        "a package is here in another version than the program was written for",
        f"{_VERSION}; for a module or function of your own, check its name and arguments",
    ),
    Failure(
        "MISSING_MODULE",
        "a Python module is missing",
        "name it in requirements.txt beside the script (or setup.py of a training package), or say stoker run --with PACKAGE",
    ),
    Failure(
        "MISSING_NAME",
        "a module lacks what the program takes from it",
        f"check the spelling, and that no file of yours has the module's name; else {_VERSION}",
    ),
    Failure(
        "SYNTAX",
        "the program is no valid Python here",
        "the line above is where; if it was written for another Python, say which: stoker run --python VERSION",
    ),
    Failure(
        "BAD_ARGUMENT",
        "the program does not take these arguments",
        "check the arguments after `--`; a training job gets --job-dir, too, if it has one",
    ),
    Failure(
        "NO_LAUNCHER",
        "it expects a launcher to have started it",
        "stoker run --workers N sets RANK, WORLD_SIZE, MASTER_ADDR; for several processes a machine: stoker run -- torchrun"
        " train.py; for one process switch its distributed mode off",
    ),
    Failure("ENVIRONMENT_VARIABLE", "it wants a variable that is not set", "set it: --env NAME=VALUE"),
    Failure(
        "LOGIN",
        "a service wants to know who asks",
        "give it the token: --env HF_TOKEN=…, --env WANDB_API_KEY=… (or WANDB_MODE=offline), --env KAGGLE_KEY=…; for a model with"
        " terms of use, accept them first",
    ),
    Failure(
        "DOWNLOAD",
        "something could not be downloaded",
        "check the name and the node's way to the internet (--env HTTPS_PROXY=…); or fetch it once, and name it by its path or"
        " gs://BUCKET/…",
        Blame.EITHER,
    ),
    # Tensors and gradients
    Failure(
        "SHAPES",
        "the shapes of tensors do not fit",
        "compare the shapes in the line above with what the model was made for: input size, classes, a last batch that is smaller"
        " (drop_last=True)",
    ),
    Failure(
        "OTHER_DEVICE",
        "tensors are on different devices",
        "move model, batch, masks and indices to one: .to(device); load with map_location=device",
    ),
    Failure(
        "OTHER_TYPE",
        "the types of tensors do not fit",
        "convert one of them (.float(), .long(), .to(dtype)), or train in one precision: --precision fp32",
    ),
    Failure(
        "UNUSED_PARAMETERS",
        "parameters took no part in the loss",
        "DistributedDataParallel(…, find_unused_parameters=True), or freeze or remove them",
    ),
    Failure(
        "GRADIENT",
        "the gradient cannot be computed",
        "torch.autograd.set_detect_anomaly(True) shows the operation; look for detach(), no_grad() and in-place operations",
    ),
    # Data and processes of its own
    Failure(
        "ENCODING",
        "a text is in another encoding than it was read in",
        "open(path, encoding='utf-8') or 'latin-1'; or for all files: --env PYTHONUTF8=1",
    ),
    Failure(
        "BAD_DATA",
        "the data is not what the program expects",
        "look at the file, column or label that the line above names; check paths, missing values and the number of classes",
    ),
    Failure(
        "FORKED_CUDA",
        "it starts processes in a way that does not work here",
        "start them under `if __name__ == '__main__':`, by multiprocessing's 'spawn' with functions of a module, before CUDA is"
        " used",
    ),
    Failure(
        "RECURSION",
        "calls went deeper than Python allows",
        "the traceback shows which function calls itself; with pretrained files it is most often one of another version",
    ),
    Failure(
        "WEIGHTS_ONLY",
        "torch.load takes nothing but weights since PyTorch 2.6",
        "for a file that you trust torch.load(…, weights_only=False), or torch.serialization.add_safe_globals",
    ),
    Failure(
        "CHECKPOINT_CORRUPT",
        "a checkpoint cannot be read",
        "remove it, and go on from the one before; write to a temporary name, then rename; of a Git LFS pointer: git lfs pull",
    ),
    Failure(
        "CHECKPOINT_MISMATCH",
        "a checkpoint is of another model",
        "use an empty job directory, or the model that wrote it; to take over what fits: strict=False, without the last layer",
    ),
    Failure("NAN", "the numbers became NaN or infinite", "lower the learning rate, clip gradients, check the data"),
)
