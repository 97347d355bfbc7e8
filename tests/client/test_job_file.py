"""config.yaml: what is read, what is refused, and at which line."""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.client.job_file import MOST_BYTES, JobFile, located, read_job_file
from stoker.core.errors import BadSpec, NotFound, Violation

MANGLED = """\
trainingInput:
  scaleTier: CUSTOM
  # Configure a master worker with 4 T4 GPUs
  masterType: n1-highcpu-16
      count: 4
      type: NVIDIA_TESLA_T4
  # Configure 9 workers, each with 4 T4 GPUs
  workerCount: 9
  workerType: n1-highcpu-16
      count: 4
      type: NVIDIA_TESLA_T4
  parameterServerCount: 3
  parameterServerType: n1-highmem-8
"""


def read(folder: Path, text: str | bytes) -> JobFile:
    """Read a file of this content."""
    path = folder / "config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_job_file(path)


def refused(folder: Path, text: str | bytes) -> list[str]:
    """What is said of a file of this content."""
    with pytest.raises(BadSpec) as raised:
        read(folder, text)
    return [f"{v.field.removeprefix(str(folder))} {v.description}" for v in raised.value.violations]


def test_a_job_in_yaml(tmp_path: Path) -> None:
    found = read(tmp_path, "jobId: j\nlabels: {team: ml}\ntrainingInput:\n  workerCount: 9\n  args: [--a, 'b']\n")
    assert found.body == {
        "jobId": "j",
        "labels": {"team": "ml"},
        "trainingInput": {"workerCount": 9, "args": ["--a", "b"]},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.10", "2.10"),
        ("2.0", "2.0"),
        ("3", 3),
        ("-3", -3),
        ("012", "012"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("1e3", "1e3"),
        ("2020-01-01", "2020-01-01"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'2.11'", "2.11"),
        ("=", "="),
        (".inf", ".inf"),
    ],
)
def test_only_what_is_surely_no_text_is_read_as_something_else(tmp_path: Path, text: str, value: object) -> None:
    assert read(tmp_path, f"value: {text}\n").body == {"value": value}


@pytest.mark.parametrize("text", ["", "# nothing\n---\n", "\n\n", "null\n"])
def test_an_empty_file_is_no_job(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text) == ["/config.yaml is empty"]


def test_a_mark_at_its_beginning_is_no_part_of_it(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfjobId: j\r\nlabels: {}\r\n").body == {"jobId": "j", "labels": {}}


def test_merge_keys_are_taken(tmp_path: Path) -> None:
    assert read(tmp_path, "trainingInput:\n  <<: {region: us-central1}\n").body["trainingInput"] == {
        "region": "us-central1"
    }


def test_a_pipe_will_do(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("jobId: j\n",))
    writer.start()
    assert read_job_file(path).body == {"jobId": "j"}
    writer.join()


BROKEN = {
    "a tab": ("trainingInput:\n\tregion: x\n", "line 2: a tab indents it"),
    "an open bracket": ("trainingInput: [a,\n", "line 1: it ends where a value has to come; a bracket is not closed"),
    "an open brace": ("trainingInput: {region: x\n", "the bracket that line 1 opens is not closed; a '}' is missing"),
    "an open quote": ("trainingInput:\n  args: ['a\n", "the quote that line 2 opens is not closed"),
    "a deeper line": ("t:\n  a: b\n   c: d\n", "line 3: it is indented deeper than line 2, which has a value already"),
    "a missing colon": ("t:\n  region us-central1\n  a: b\n", "write region: us-central1"),
    "a table without a colon": ("trainingInput\n  a: b\n", "has no ':' after its name; write trainingInput:"),
    "a second colon": ("t:\n  a: b: c\n", "a second ':' in one value; put the value in quotes"),
    "a line further out": ("t:\n    a: b\n  c: d\n", "line 3: it is indented unlike the lines that it belongs to"),
    "two documents": ("---\na: 1\n---\nb: 2\n", "line 3"),
    "a list": ("- a\n", "holds a list, not a table"),
    "a word": ("hello\n", "holds only 'hello', not a table"),
    "a number": ("7\n", "holds only '7', not a table"),
    "no UTF-8": (b"\xff\xfe\x00", "not a text in UTF-8"),
    "a control character": (b"a: \x01\n", "special characters are not allowed"),
    "an alias": ("a: &x [1]\nb: *x\n", "line 2: aliases (*name) are not taken"),
    "an alias bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")),
        "line 2: aliases",
    ),
    "a tag": ("a: !!python/object/apply:os.system ['echo pwned']\n", "line 1: could not determine a constructor"),
    "a table as a key": ("? {a: b}\n: 1\n", "unhashable key"),
    "a huge number": ("a: " + "9" * 10_000 + "\n", "limit"),
    "deep brackets": ("a: " + "[" * 3000 + "]" * 3000, "more than 64 levels"),
    "deep tables": ("".join(" " * n + "a:\n" for n in range(100)), "more than 64 levels"),
    "too many values": ("a: [" + "x," * 12_000 + "]", "more than 10000 values"),
    "too many bytes": ("a: " + "x" * (MOST_BYTES + 1), "larger than a job file may be, 1 MiB"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(tmp_path: Path, case: str) -> None:
    text, phrase = BROKEN[case]
    (said,) = refused(tmp_path, text)
    assert phrase in said and said.startswith("/config.yaml")


@pytest.mark.parametrize(
    ("name", "phrase"), [("nothing.yaml", "no such file"), (".", "Is a directory"), ("a\x00b", "null byte")]
)
def test_what_is_no_file(tmp_path: Path, name: str, phrase: str) -> None:
    with pytest.raises(BadSpec) as raised:
        read_job_file(tmp_path / name)
    assert phrase in str(raised.value)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(BadSpec):
        read_job_file(Path("/dev/zero"))


def test_keys_that_stand_twice_are_told_with_both_lines(tmp_path: Path) -> None:
    text = (
        "jobId: a\nlabels: {x: 1, x: 2}\ntrainingInput:\n  region: a\n  args: [{y: 1, y: 2}]\n  region: b\njobId: c\n"
    )
    assert refused(tmp_path, text) == [
        "/config.yaml:7 jobId stands here and at line 1: keep one of them",
        "/config.yaml:2 x stands here and at line 2: keep one of them",
        "/config.yaml:6 region stands here and at line 4: keep one of them",
        "/config.yaml:5 y stands here and at line 5: keep one of them",
    ]


# The documents' mangled example.


def test_the_mangled_example_is_recognised_and_answered_with_the_true_form(tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as raised:
        read(tmp_path, MANGLED)
    assert "line 5: count hangs below masterType" in str(raised.value)
    assert "masterConfig: / acceleratorConfig:" in str(raised.value)
    true_form = raised.value.fix.partition("\n")[2]
    training = read(tmp_path, true_form).body["trainingInput"]
    four = {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}}
    assert training["masterConfig"] == training["workerConfig"] == four
    assert (training["masterType"], training["workerCount"], training["parameterServerCount"]) == (
        "n1-highcpu-16",
        9,
        3,
    )
    assert "# Configure 9 workers" in true_form


def test_the_other_order_and_other_roles_are_recognised_too(tmp_path: Path) -> None:
    text = "trainingInput:\n  evaluatorType: n1-standard-8\n    type: NVIDIA_TESLA_T4\n    count: 1\n"
    assert "type hangs below evaluatorType" in refused(tmp_path, text)[0]


def test_a_true_form_is_left_alone(tmp_path: Path) -> None:
    text = "trainingInput:\n  masterType: n1\n  masterConfig:\n    acceleratorConfig:\n      count: 4\n      type: T4\n"
    assert read(tmp_path, text).body["trainingInput"]["masterConfig"]["acceleratorConfig"]["count"] == 4


# Where things stand.

PLACES = """\
jobIdd: x
labels: {Team: ML}
trainingInput:
  scaleTier: CUSTOM
  workerTyp: n1
  args:
    - a
    - true
  master_config:
    acceleratorConfig:
      count: 3
      typ: T4
  packageUris: [a, b]
"""


@pytest.mark.parametrize(
    ("field", "description", "line"),
    [
        ("job.labels.Team", "", 2),
        ("job.labels", "", 2),
        ("job", "Job has no field 'jobIdd'; did you mean jobId?", 1),
        ("job.job_id", "", 0),
        ("scale_tier", "", 4),
        ("training_input", "TrainingInput has no field 'workerTyp'; …", 5),
        ("training_input", "TrainingInput has no field 'nothing'; …", 3),
        ("args", "", 6),
        ("args[1]", "", 8),
        ("args[7]", "", 6),
        ("master_config.accelerator_config.count", "", 11),
        ("master_config.accelerator_config", "AcceleratorConfig has no field 'typ'; …", 12),
        ("master_config.image_uri", "", 9),
        ("package_uris[1]", "", 13),
        ("region", "", 3),
        ("worker_config.accelerator_config.count", "", 3),
    ],
)
def test_the_line_of_a_mistake(tmp_path: Path, field: str, description: str, line: int) -> None:
    assert read(tmp_path, PLACES).line(Violation(field, description)) == line


def test_what_is_not_in_the_file_has_no_line(tmp_path: Path) -> None:
    assert read(tmp_path, "labels: {}\n").line(Violation("region", "x")) == 0


def test_mistakes_are_told_with_their_lines_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("labels: {}\ntrainingInput:\n  scaleTier: X\n  region: Y\n")
    file = read_job_file(path)
    error = BadSpec([Violation("region", "b"), Violation("scale_tier", "a"), Violation("job.job_id", "c")], fix="f")
    told = located(error, file)
    assert isinstance(told, BadSpec) and told.fix == "f"
    assert [v.field.removeprefix(f"{path}:") for v in told.violations] == ["job.job_id", "3 scale_tier", "4 region"]
    assert located(error, None) is error
    other = NotFound("x")
    assert located(other, file) is other


def test_what_is_wrong_with_a_flag_is_of_no_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("trainingInput:\n  scaleTier: BASIC\n")
    told = located(BadSpec([Violation("--module-name", "is not there")]), read_job_file(path))
    assert isinstance(told, BadSpec) and [v.field for v in told.violations] == ["--module-name"]
