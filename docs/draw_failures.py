"""docs/failures.md, from scheduling/failures.py and runtime/signature_table.py."""

from __future__ import annotations

from docs.markdown import page, table
from stoker.runtime.signature_table import AGAIN, EFFECTS
from stoker.scheduling.failures import FAILURES

_AGAIN = {
    "never": "no",
    "elsewhere": "on another node",
    "anywhere": "yes",
    "": "as its exit code says",
}


def failures() -> str:
    """docs/failures.md."""
    signs = [row for row in FAILURES.values() if row.code in AGAIN and row.code not in EFFECTS]
    effects = [row for row in FAILURES.values() if row.code in EFFECTS]
    others = [row for row in FAILURES.values() if row.code not in AGAIN]
    return page(
        "Failures",
        "What an attempt that did not succeed died of: which replica explains the others, the line that shows it, what to do,"
        " and whether it was tried again. `stoker run`, `stoker wait`, `stoker why JOB` and `stoker jobs describe JOB` show it;"
        " in the API and the SDK it is the `diagnosis`.",
        "```\n$ stoker run --gpus 1 -- python train.py\n…\n✗ train_3f2a failed after 12.3s\n"
        "  chief-0 on local: the GPU has too little memory for it (CUDA_OOM)\n"
        "    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. …\n"
        "    not tried again: the same would happen again\n"
        "    → use a smaller batch, mixed precision or gradient checkpointing; or a GPU with more memory: --gpu-type\n```",
        "## How it is found",
        "When a program has failed, its supervisor looks through the last 200 lines of each of its streams, and at what the"
        " kernel tells of it: kills for memory, errors of its GPUs (Xid), and full disks. A line that bears one of the signs"
        " below is the evidence. What the kernel says counts first, then what names a cause, then what is most often only the"
        " effect of a peer's end; of several causes the one in the last traceback. Of a program that was killed only the last"
        " 25 lines count. The kernel's log is read where the supervisor may (`/dev/kmsg`).",
        "Of a gang the replica that failed first explains the others. Where that one shows only an effect, such as a broken"
        " connection, and another that fails within a minute shows a cause, that one does.",
        "## What follows",
        "A sign goes over the [exit code](running.md#exit-codes). “On another node” means: there is another node that could"
        " hold it; it goes there if there is room, and else where there is. With nowhere else to go the exit code decides. A"
        " job that fails with the same sign on two nodes is not tried again: then it is the program, unless a device is broken."
        " A job that asks for no GPUs is not sent elsewhere to find one. Tries are counted, and end as they do without a sign.",
        table(
            ["Sign", "What happened", "To blame", "Tried again", "What to do"],
            [[f"`{r.code}`", r.title, r.blame, _AGAIN[AGAIN[r.code]], r.fix] for r in signs],
        ),
        "## Effects",
        "Of a job of one replica these are like any other error: its exit code decides.",
        table(
            ["Sign", "What happened", "To blame", "Tried again", "What to do"],
            [[f"`{r.code}`", r.title, r.blame, _AGAIN[AGAIN[r.code]], r.fix] for r in effects],
        ),
        "## Where no sign is found",
        table(
            ["Code", "What happened", "To blame", "What to do"],
            [[f"`{r.code}`", r.title, r.blame, r.fix or "nothing"] for r in others],
        ),
    )
