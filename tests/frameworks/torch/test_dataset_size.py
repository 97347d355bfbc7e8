"""Programs that divide a share's sum by the size of all the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.frameworks import messages
from stoker.frameworks.torch.dataset_size import watch_size

PROGRAM = """
class Data:
    def __len__(self):
        return 10


data, other = Data(), Data()
watch(data, processes)
print(f"[5/{len(data)}]")
part = 5 / len(other)
mean = 5 / len(data)
"""


@pytest.mark.parametrize(("processes", "lines"), [(2, 1), (1, 0)])
def test_the_line_that_divides_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: int, lines: int
) -> None:
    messages._said.clear()
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    told = {"watch": watch_size, "processes": processes}
    exec(compile(PROGRAM, str(file), "exec"), told)
    assert told["mean"] == 0.5
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    if lines:
        assert "line 11 divides by the size of all the data, 'mean = 5 / len(data)'" in said[0] and "1/2" in said[0]


def test_data_of_a_type_that_cannot_be_watched_are_let_be() -> None:
    watch_size([1, 2], 2)
    watch_size(object(), 2)
