"""What an exit code means: who is to blame, and whether trying again can help.

Source: AI Platform Training, understanding-training-service; the base image's entry script marks 1..127 as not to be retried.
"""

from __future__ import annotations

PERMANENT = "permanent"  # the program's own error: the job has failed
TRANSIENT = "transient"  # may pass: the whole job is tried again
RESTARTABLE = "restartable"  # the service killed it: this replica alone is started again, if it can be

LEASE_OVER = "LEASE_OVER"
"""The sign of a replica that has ended itself, because it could not renew its lease."""

_TRANSIENT = frozenset({6, 11, 134, 139})  # abort and segmentation fault, as such or as 128 + n


def shown_exit_code(code: int, *, is_container: bool = False) -> int:
    """The exit code to report, from what Python gives: -n for a death by signal n.

    It counts as 128 + n, but a package's abort and segmentation fault as 6 and 11: so the base image reports them. SIGKILL is
    137, not 9: whoever sent it, the program did not end by an error of its own (docs/decisions/0004).
    """
    if code >= 0:
        return code
    return -code if code in (-6, -11) and not is_container else 128 - code


def exit_class(code: int, out_of_memory: bool = False) -> str:
    """The class of a non-zero exit code: PERMANENT, TRANSIENT or RESTARTABLE."""
    if out_of_memory:
        return PERMANENT
    if code in _TRANSIENT:
        return TRANSIENT
    if 1 <= code <= 127:
        return PERMANENT
    return RESTARTABLE
