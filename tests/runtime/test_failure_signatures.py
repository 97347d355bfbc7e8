"""By which of a program's last words its failure is known. The texts are in tests/data/failures, named by what they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runtime.exits import shown_exit_code
from stoker.runtime.failure_signatures import MOST_EVIDENCE_CHARACTERS, MOST_LINES, Found, find_signature
from stoker.runtime.signature_table import EFFECTS, SIGNATURES
from stoker.scheduling.failures import FAILURES, of_exit_code

IN_PUBLIC = Path(__file__).parent.parent / "data" / "failures_in_public.json"
CORPUS = sorted((Path(__file__).parent.parent / "data" / "failures").glob("*.txt"))


def expected(file: Path) -> str:
    """`cuda_oom.torch.txt` shows CUDA_OOM."""
    code = file.name.partition(".")[0].upper()
    return "" if code == "NONE" else code


def looked_at(file: Path) -> Found:
    """What is found in a text; those named kernel are the kernel's."""
    lines = file.read_text().splitlines()
    return find_signature([], [], lines) if is_the_kernels(file) else find_signature([], lines)


def is_the_kernels(file: Path) -> bool:
    """Whether it is of the kernel's log, and not of a program's output."""
    return file.stem.endswith(("kernel", "kernel_xid_13"))


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_real_text_shows_what_happened(file: Path) -> None:
    found = looked_at(file)
    assert found.sign == expected(file), found.evidence
    assert bool(found.evidence) == bool(found.sign)


@pytest.mark.parametrize("file", [f for f in CORPUS if not is_the_kernels(f)], ids=lambda file: file.stem)
def test_it_is_found_on_stdout_between_other_lines_too(file: Path) -> None:
    noise = [f"step {n} loss 0.{n}" for n in range(50)]
    found = find_signature([*noise, *file.read_text().splitlines(), *noise], noise)
    assert found.sign == expected(file), found.evidence


@pytest.mark.parametrize(("group", "at_least"), [("first", 45), ("unseen", 23)])
def test_messages_from_public_trackers_get_their_true_cause(group: str, at_least: int) -> None:
    """Fifty by which the table was widened, and 25 of the same kinds that were kept aside until it was.

    `code` is what somebody who had read the thread judged. Of the 25 the table as it then was found 18.
    """
    rows = [row for row in json.loads(IN_PUBLIC.read_text()) if row["group"] == group]
    wrong = []
    for row in rows:
        code = row["exit_code"]
        found = find_signature([], row["lines"], code=code).sign or of_exit_code(shown_exit_code(code))
        if found != row["code"]:
            wrong.append((row["source"], row["code"], found))
    assert len(rows) - len(wrong) >= at_least, wrong


def test_every_sign_has_a_text_and_a_meaning() -> None:
    codes = {sign.code for sign in SIGNATURES}
    assert codes - {expected(file) for file in CORPUS} == {"DISK_FULL", "DISK_QUOTA", "NOT_DISTRIBUTED", "SANDBOX"}, (
        "signs without an example"
    )
    assert codes <= FAILURES.keys()


def test_the_cause_counts_not_its_effect() -> None:
    effect = ["ConnectionResetError: [Errno 104] Connection reset by peer"]
    cause = ["ModuleNotFoundError: No module named 'x'"]
    assert find_signature(effect, cause).sign == find_signature(cause, effect).sign == "MISSING_MODULE"
    assert find_signature([], effect).sign in EFFECTS
    assert (
        find_signature([], cause, ["NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."]).sign
        == "GPU_LOST"
    )


def test_what_was_survived_before_is_not_the_cause() -> None:
    survived = [
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "retrying with half the batch",
    ]
    end = [
        "Traceback (most recent call last):",
        '  File "train.py", line 1',
        "FileNotFoundError: [Errno 2] No such file: 'x'",
    ]
    assert find_signature([], survived + end).sign == "NO_SUCH_FILE"


def test_one_that_was_killed_is_known_by_its_last_words_only() -> None:
    lines = ["FileNotFoundError: [Errno 2] No such file or directory: 'cache'", *["step"] * 30]
    assert find_signature([], lines, code=1).sign == "NO_SUCH_FILE"
    assert find_signature([], lines, code=-9).sign == ""
    assert find_signature([], [*lines, "ModuleNotFoundError: No module named 'x'"], code=-9).sign == "MISSING_MODULE"


def test_evidence_is_one_line_fit_to_be_shown() -> None:
    found = find_signature([], ["\x1b[31mModuleNotFoundError: No module named '\u202ex" + "y" * 3000])
    assert found.sign == "MISSING_MODULE"
    assert len(found.evidence) <= MOST_EVIDENCE_CHARACTERS
    assert "\x1b" not in found.evidence and "\u202e" not in found.evidence


@given(st.lists(st.text(max_size=200), max_size=30), st.lists(st.text(max_size=200), max_size=30))
def test_random_text_bears_no_sign(out: list[str], err: list[str]) -> None:
    assert find_signature(out, err, err) == ("", "")


@given(
    st.lists(
        st.sampled_from("error failed No module named CUDA memory out of : [Errno 2] nan loss killed".split()),
        max_size=40,
    )
)
def test_words_of_failures_alone_are_no_sign(words: list[str]) -> None:
    found = find_signature([], [" ".join(words)])
    assert found.sign in ("", "NAN")


def test_a_long_log_costs_no_more_than_its_last_lines() -> None:
    looked: list[int] = []

    def count(frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__name__", "") == "finditer":
            looked.append(len(frame.f_locals["text"]))

    lines = [f"step {n} loss 0.5 of a log that goes on" for n in range(100_000)]
    find_signature([], ["the patterns are compiled now"])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert find_signature(lines, lines).sign == ""
    finally:
        sys.setprofile(before)
    assert 0 < len(looked) <= 4 * len(SIGNATURES)
    assert max(looked) < MOST_LINES * 60
