"""What a sandbox is to blame for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stoker.runtime.folder import Folder
from stoker.runtime.mount_list import MountList
from stoker.runtime.sandbox import Sandbox


def a_sandbox(home: Path, level: int) -> Sandbox:
    words = {
        "level": level,
        "stoker_home": str(home / ".stoker"),
        "user_home": str(home),
        "own_home": str(home / ".stoker/job-homes/ada"),
        "own_folders": [str(home / ".stoker/buckets/gs/b")],
        "folders": [str(home / ".cache/open")],
        "user": 20_000 if level == 2 else None,
    }
    return Sandbox({"isolation": words}, Folder(str(home / ".stoker/runs/p/j.1/chief-0")))


READ_ONLY = "OSError: [Errno 30] Read-only file system: {}"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: {}"
DENIED = "PermissionError: [Errno 13] Permission denied: {}"


@pytest.mark.parametrize(
    ("sign", "evidence", "path", "levels"),
    [
        ("READ_ONLY", READ_ONLY, "'/etc/x'", {1, 2}),
        ("READ_ONLY", "sh: 1: cannot create {}: Read-only file system", "/etc/x", {1, 2}),
        ("READ_ONLY", READ_ONLY, "'out/x'", {1, 2}),
        ("NO_SUCH_FILE", MISSING, "'HOME/.stoker/token'", {1, 2}),
        ("NO_SUCH_FILE", MISSING, "'HOME/data/../.ssh/id'", {1, 2}),
        ("PERMISSION", DENIED, "'HOME/data/x'", {2}),
        ("NO_SUCH_FILE", MISSING, "'HOME/.stoker/runs/p/j.1/chief-0/work/x'", set()),
        ("NO_SUCH_FILE", MISSING, "'HOME/.stoker/job-homes/ada/x'", set()),
        ("NO_SUCH_FILE", MISSING, "'HOME/.stoker/buckets/gs/b/x'", set()),
        ("NO_SUCH_FILE", MISSING, "'HOME/.cache/open/x'", set()),
        ("NO_SUCH_FILE", MISSING, "'data.csv'", set()),
        ("NO_SUCH_FILE", MISSING, "'/usr/x'", set()),
        ("NO_SUCH_FILE", MISSING, "'/tmp/nobody-has-made-this'", set()),
        ("PERMISSION", DENIED, "'/etc/shadow'", set()),
        ("CHECKPOINT_CORRUPT", "EOFError: {}", "'/tmp'", set()),
    ],
)
def test_which_failures_are_the_sandboxs(tmp_path: Path, sign: str, evidence: str, path: str, levels: set[int]) -> None:
    home = Path("/home/of/the/user")
    line = evidence.format(path.replace("HOME", str(home)))
    assert {level for level in (0, 1, 2) if a_sandbox(home, level).keeps_from(sign, line)} == levels


def test_what_lies_in_the_machines_own_temporary_folder_is_not_in_the_sandboxs(tmp_path: Path) -> None:
    file = Path("/tmp") / f"stoker-{tmp_path.name}"
    file.touch()
    try:
        assert a_sandbox(tmp_path, 1).keeps_from("NO_SUCH_FILE", MISSING.format(f"'{file}'"))
    finally:
        file.unlink()


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH"])
def test_a_job_has_nothing_of_its_own_loaded_into_what_stands_around_it(tmp_path: Path, name: str) -> None:
    """bubblewrap runs outside of the sandbox, and what changes the user in it runs as root: only the program sees these."""
    environment = {name: "/evil.so", "PATH": "/usr/bin", "SEED": "1"}
    assert a_sandbox(tmp_path, 0).outer(environment) == environment
    for level in (1, 2):
        assert a_sandbox(tmp_path, level).outer(environment) == {"PATH": "/usr/bin", "SEED": "1"}


@pytest.mark.parametrize("level", [1, 2])
def test_the_program_alone_is_given_them(tmp_path: Path, level: int) -> None:
    sandbox = a_sandbox(tmp_path, level)
    sandbox._asked.update(bwrap="/usr/bin/bwrap", setpriv="/usr/bin/setpriv", folders=[], own_folders=[])
    sandbox._request = {"python": "/usr/bin/python3", "visible_devices": "", "isolation": sandbox._asked}
    environment = {"LD_PRELOAD": "/mine.so", "PATH": "/usr/bin:/bin"}
    with closing(MountList()) as mounts:
        command = sandbox.program(["true"], environment, str(tmp_path), [], mounts, told=9)
    inner = command[command.index("--") + 1 :]
    assert inner[-3:-1] == ["/usr/bin/env", "LD_PRELOAD=/mine.so"] and inner[-1].endswith("/true")
    assert "LD_PRELOAD=/mine.so" not in command[: command.index("--")]


@pytest.mark.parametrize("level", [1, 2])
def test_an_interpreter_that_a_user_names_shows_nothing_that_is_none(tmp_path: Path, level: int) -> None:
    for name in (".venvs/mine/bin/python", ".ssh/key", ".keys/bin/key", ".local/bin/key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    (tmp_path / ".venvs/mine/pyvenv.cfg").touch()

    def shown(python: str) -> list[str]:
        sandbox = a_sandbox(tmp_path, level)
        sandbox._asked.update(bwrap="/usr/bin/bwrap", setpriv="/usr/bin/setpriv", folders=[], own_folders=[])
        sandbox._request = {
            "python": python,
            "python_asked": python,
            "visible_devices": "",
            "isolation": sandbox._asked,
        }
        with closing(MountList()) as mounts:
            words = sandbox.program(
                ["true"], {"PATH": "/usr/bin:/bin"}, str(tmp_path / ".stoker/w"), [], mounts, told=9
            )
        binds = [
            words[n + 2] for n, word in enumerate(words) if word in ("--ro-bind", "--ro-bind-fd", "--bind", "--bind-fd")
        ]
        return [path for path in binds if path.startswith(str(tmp_path)) and ".stoker" not in path]

    assert shown(f"{tmp_path}/.venvs/mine/bin/python") == [f"{tmp_path}/.venvs/mine"]
    for secret in (".ssh/key", ".keys/bin/key", ".local/bin/key"):
        assert shown(f"{tmp_path}/{secret}") == [], "only an environment is shown"
