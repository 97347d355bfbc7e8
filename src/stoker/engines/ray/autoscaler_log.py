"""What the log of Ray's autoscaler says of a launch that failed. Sent by value to the head, where Stoker is not installed."""

import glob
import os
import re

import ray

_TAIL_BYTES = 1_000_000


def last_words(node_type: str) -> str:
    """The words of the last launch of a node type that failed; empty if none is found."""
    said = re.compile(rf"Failed to launch \d+ nodes of type {re.escape(node_type)}: (.+)")
    folder = ray._private.worker._global_node.get_logs_dir_path()
    for path in sorted(glob.glob(os.path.join(folder, "monitor*.log")), key=os.path.getmtime, reverse=True):
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            found = [match[1] for line in log if (match := said.search(line.decode(errors="replace")))]
        if found:
            return str(found[-1]).strip()
    return ""
