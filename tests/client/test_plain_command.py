"""Plain commands: what is run for a script, and what its job is called."""

from __future__ import annotations

import re

from stoker.client.plain_command import command_of, name_of


def test_a_script_is_run_by_its_runner() -> None:
    assert command_of("train.py", ["--epochs", 3]) == ["python", "train.py", "--epochs", "3"]
    assert command_of("run.sh") == ["sh", "run.sh"]


def test_a_command_stands_as_it_is() -> None:
    assert command_of("./my program", ["x"]) == ["./my program", "x"]
    assert command_of(["/opt/env/bin/python", "train.py"], [1]) == ["/opt/env/bin/python", "train.py", "1"]


def test_the_names_of_commands() -> None:
    commands = (["python", "train.py"], ["./run-it.sh"], ["/bin/1st"], ["echo"], ["!"])
    named = {name_of(words).rpartition("_")[0] for words in commands}
    assert named == {"train", "run_it", "job_1st", "echo", "job"}
    assert re.fullmatch(r"train_[0-9a-f]{4}", name_of(["python", "train.py"]))
