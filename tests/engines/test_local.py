"""This machine as an engine: adoption, whole trees ended, outcomes told apart. Real processes throughout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stoker.core.errors import Unavailable
from stoker.core.launch import Launch
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Seen
from stoker.engines.local.engine import STARTS_AT_ONCE, LocalEngine
from stoker.engines.local.leftovers import MARK
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, a_launch, an_attempt, look, until
from tests.contract.test_engines import a_local_engine

FOLDER = Path("runs") / ATTEMPT / "chief-0"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    engine = a_local_engine(tmp_path)
    yield engine
    engine.stop(ATTEMPT, force=True)


def python(script: str, *args: str, **options: object) -> Launch:
    """A launch of a small program."""
    return a_launch(sys.executable, "-c", script, *args, **options)  # type: ignore[arg-type]


def run(engine: LocalEngine, launch: Launch) -> Seen:
    """Run it to its end."""
    engine.start(engine.render(launch))
    return until(engine, *FINAL_REPLICA_STATES)


def lines(engine: LocalEngine) -> list[str]:
    return [str(line["m"]) for line in engine.logs(ATTEMPT, "chief-0", 0)]


def test_a_new_engine_finds_what_the_old_one_started(engine: LocalEngine, tmp_path: Path) -> None:
    flag = tmp_path / "end"
    script = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    engine.start(engine.render(python(script, str(flag))))
    until(engine, ReplicaState.UP)
    heir = a_local_engine(tmp_path)
    assert look(heir).state is ReplicaState.UP
    heir.start(heir.render(python(script, str(flag))))
    flag.touch()
    assert until(heir, *FINAL_REPLICA_STATES).state is ReplicaState.SUCCEEDED


def test_output_is_on_disk_in_order_with_its_streams(engine: LocalEngine) -> None:
    script = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('last, no newline', end='')"
    assert run(engine, python(script)).last_line == 3
    found = [(line["n"], line["s"], line["m"]) for line in engine.logs(ATTEMPT, "chief-0", 0)]
    assert {(s, m) for _, s, m in found} == {("out", "one"), ("err", "two"), ("out", "last, no newline")}
    assert [n for n, _, _ in found] == [1, 2, 3]
    assert [line["n"] for line in engine.logs(ATTEMPT, "chief-0", 2)] == [3]


def test_the_last_lines_of_a_long_output_are_found_from_its_end(engine: LocalEngine) -> None:
    assert run(engine, python("for n in range(40_000): print(n, 'x' * 50)")).last_line == 40_000
    for after in (0, 1, 20_000, 39_000, 39_999):
        found = [line["n"] for line in engine.logs(ATTEMPT, "chief-0", after)]
        assert found == list(range(after + 1, 40_001))
    assert not list(engine.logs(ATTEMPT, "chief-0", 40_000))


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("import sys; sys.exit(3)", 3, "Termination reason: Error."),
        ("raise ValueError('the cause')", 1, "ValueError: the cause"),
        ("import os; os.abort()", 6, "Signal SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 11, "Signal SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "Signal SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "Signal SIGTERM"),
    ],
)
def test_how_it_ended(engine: LocalEngine, script: str, code: int, words: str) -> None:
    seen = run(engine, python(script))
    assert (seen.state, seen.exit_code) == (ReplicaState.FAILED, code)
    assert words in seen.message and not seen.out_of_memory


def test_running_out_of_memory_is_told_apart(engine: LocalEngine) -> None:
    seen = run(engine, python("raise MemoryError"))
    assert (seen.exit_code, seen.out_of_memory) == (1, True)


def test_a_long_traceback_is_cut_from_its_oldest_frames(engine: LocalEngine) -> None:
    script = "import sys\nsys.setrecursionlimit(100)\ndef f(n): return f'{n:>200}' and f(n + 1)\nf(0)"
    seen = run(engine, python(script))
    assert "RecursionError" in seen.message and len(seen.message) < 2200


def test_a_missing_module_is_said(engine: LocalEngine) -> None:
    seen = run(engine, a_launch(sys.executable, "-m", "no_such_trainer.task"))
    assert seen.exit_code == 1
    assert any("No module named" in line for line in lines(engine))


def test_a_missing_program_is_said(engine: LocalEngine) -> None:
    seen = run(engine, a_launch("no-such-program"))
    assert (seen.state, seen.exit_code) == (ReplicaState.FAILED, None)
    assert "no program 'no-such-program'" in seen.message


def test_a_killed_program_is_started_again_in_place(engine: LocalEngine, tmp_path: Path) -> None:
    script = """
import os, signal, sys
count = sys.argv[1]
open(count, "a").write(os.environ["STOKER_RESTART_COUNT"])
if os.path.getsize(count) < 3:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    seen = run(engine, python(script, str(tmp_path / "count"), in_place=5))
    assert seen.state is ReplicaState.SUCCEEDED
    assert (tmp_path / "count").read_text() == "012"


def test_one_that_trains_in_step_with_others_of_its_machine_alone_is_started_again_in_place(
    engine: LocalEngine, tmp_path: Path
) -> None:
    script = """
import os, signal, sys
open(sys.argv[1], "a").write("x")
open(os.path.join(os.path.dirname(os.environ["STOKER_BEAT_FILE"]), "in_step"), "w").close()
if os.path.getsize(sys.argv[1]) < 2:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(engine, python(script, str(tmp_path / "count"), in_place=5)).state is ReplicaState.SUCCEEDED
    assert (tmp_path / "count").read_text() == "xx"


def test_an_error_of_its_own_is_not_started_again(engine: LocalEngine, tmp_path: Path) -> None:
    script = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit(1)"
    assert run(engine, python(script, str(tmp_path / "count"), in_place=5)).exit_code == 1
    assert (tmp_path / "count").read_text() == "x"


def test_term_gives_the_program_its_grace(engine: LocalEngine, tmp_path: Path) -> None:
    script = """
import signal, sys, time
def save(*_):
    open(sys.argv[1], "a").write("saved")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""
    engine.start(engine.render(python(script, str(tmp_path / "saved"))))
    wait_until(lambda: lines(engine) == ["ready"])
    engine.stop(ATTEMPT, force=False)
    assert until(engine, *FINAL_REPLICA_STATES).exit_code == 143
    assert (tmp_path / "saved").read_text() == "saved", "TERM came once"


def test_who_does_not_listen_to_term_is_killed_after_the_grace(engine: LocalEngine) -> None:
    script = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    engine.start(engine.render(python(script, grace_seconds=0.2)))
    wait_until(lambda: lines(engine) == ["ready"])
    engine.stop(ATTEMPT, force=False)
    assert until(engine, *FINAL_REPLICA_STATES).exit_code == 137


def test_a_child_of_a_shell_gets_the_grace_too(engine: LocalEngine, tmp_path: Path) -> None:
    saver = tmp_path / "saver.py"
    saver.write_text(
        "import signal, sys, time\n"
        "def save(*_):\n    time.sleep(0.3)\n    open(sys.argv[1], 'w').write('saved')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    engine.start(engine.render(a_launch("sh", "-c", f"{sys.executable} {saver} {tmp_path / 'saved'}; true")))
    wait_until(lambda: lines(engine) == ["ready"])
    engine.stop(ATTEMPT, force=False)
    until(engine, *FINAL_REPLICA_STATES)
    assert (tmp_path / "saved").read_text() == "saved"


ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)
print("ready", flush=True)
if sys.argv[2] == "stay": time.sleep(60)
"""


@pytest.mark.parametrize("how", ["ends", "stopped", "forced", "supervisor killed"])
def test_a_child_that_left_the_group_does_not_outlive_it(engine: LocalEngine, tmp_path: Path, how: str) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux lets a supervisor adopt orphans")
    pid_file = tmp_path / "pid"
    launch = python(ESCAPE, str(pid_file), "end" if how == "ends" else "stay")
    engine.start(engine.render(launch))
    wait_until(lambda: lines(engine) == ["ready"])
    escaped = int(pid_file.read_text())
    if how == "stopped":
        engine.stop(ATTEMPT, force=False)
    elif how == "forced":
        engine.stop(ATTEMPT, force=True)
    elif how == "supervisor killed":
        os.kill(int((tmp_path / FOLDER / "pid").read_text()), signal.SIGKILL)
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert seen.state is (ReplicaState.SUCCEEDED if how == "ends" else seen.state)
    wait_until(lambda: not psutil.pid_exists(escaped) or psutil.Process(escaped).status() == psutil.STATUS_ZOMBIE)


def test_a_killed_supervisor_is_a_lost_replica_and_its_program_dies_with_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start(engine.render(python("import time; time.sleep(60)")))
    until(engine, ReplicaState.UP)
    program = json.loads((tmp_path / FOLDER / "status.json").read_text())["program_pid"]
    os.kill(int((tmp_path / FOLDER / "pid").read_text()), signal.SIGKILL)
    assert until(engine, *FINAL_REPLICA_STATES).state is ReplicaState.LOST
    if sys.platform.startswith("linux"):
        wait_until(lambda: not psutil.pid_exists(program) or psutil.Process(program).status() == "zombie")


def test_what_the_program_sees(engine: LocalEngine, tmp_path: Path) -> None:
    script = "import json, os, sys; json.dump([dict(os.environ), os.getcwd()], open(sys.argv[1], 'w'))"
    run(engine, python(script, str(tmp_path / "seen"), env={"MY_OWN": "1"}))
    environment, folder = json.loads((tmp_path / "seen").read_text())
    assert folder == str(tmp_path / FOLDER / "work")
    assert environment["MY_OWN"] == "1"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["PYTHONUNBUFFERED"] == "1"
    task = json.loads(environment["TF_CONFIG"])["task"]
    assert (task["type"], task["index"]) == ("chief", 0)
    assert (environment["RANK"], environment["WORLD_SIZE"]) == ("0", "1")
    assert "STOKER_TOKEN" not in environment and "t" not in [v for k, v in environment.items() if "TOKEN" in k]


def test_the_servers_own_wiring_reaches_no_program_but_its_other_variables_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANKING", "RANK", "TF_CONFIG", "AIP_MODEL_DIR", "STOKER_TOKEN"):
        monkeypatch.setenv(name, "the server's")
    engine = a_local_engine(tmp_path)
    script = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    run(engine, python(script, str(tmp_path / "seen")))
    seen = json.loads((tmp_path / "seen").read_text())
    assert [name for name, value in seen.items() if value == "the server's"] == ["RANKING"]


def test_the_request_is_for_its_user_alone(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("pass"))
    assert (tmp_path / FOLDER / "request.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700


def test_a_file_with_an_old_time_is_kept_too(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, a_launch("sh", "-c", "cp -p /etc/hostname result.txt"))
    assert (tmp_path / FOLDER / "work/result.txt").exists()


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"seen": "NONSENSE"}', '{"seen": "UP", "restarts": "x"}', '{"seen": "UP", "restarts": Infinity}'),
        *("\x00", "[" * 100_000, '{"seen": "FAILED", "exit_code": "rm"}'),
    ],
)
def test_a_status_that_cannot_be_read_loses_this_replica_and_no_other(
    engine: LocalEngine, tmp_path: Path, text: str
) -> None:
    engine.start(engine.render(python("import time; time.sleep(60)")))
    until(engine, ReplicaState.UP)
    (tmp_path / FOLDER / "status.json").write_text(text)
    seen = look(engine)
    assert seen.state is ReplicaState.LOST and "cannot be read" in seen.message


def test_what_a_program_writes_into_its_log_hides_no_line(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("print('before')"))
    with open(tmp_path / FOLDER / "log.jsonl", "a", encoding="utf-8") as file:
        for text in ("[" * 100_000, '{"n": Infinity, "t": 1, "s": "out", "m": ""}', '{"n": "x"}', "{", "\0"):
            file.write(text + "\n")
        file.write('{"n": 2, "t": 1.0, "s": "out", "m": "after"}\n')
    assert lines(engine) == ["before", "after"]


def test_odd_bytes_in_a_status_can_be_stored(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("pass"))
    status = json.loads((tmp_path / FOLDER / "status.json").read_text())
    (tmp_path / FOLDER / "status.json").write_text(json.dumps({**status, "message": "\ud800"}))
    look(engine).message.encode()


def test_bad_records_in_a_log_are_passed_over(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("print('one')"))
    with open(tmp_path / FOLDER / "log.jsonl", "ab") as file:
        file.write(b'{"n": 2, "t"\n{"n": "x"}\n\xff\n{"n": 3, "t": 1.0, "s": "out", "m": "three"}\n')
    assert lines(engine) == ["one", "three"]


def test_stopped_from_outside_is_no_success_whatever_the_program_says(engine: LocalEngine, tmp_path: Path) -> None:
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(60)
"""
    engine.start(engine.render(python(script)))
    wait_until(lambda: lines(engine) == ["ready"])
    os.kill(int((tmp_path / FOLDER / "pid").read_text()), signal.SIGTERM)
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert (seen.state, seen.exit_code) == (ReplicaState.FAILED, 143)


def test_what_the_program_wrote_is_kept_and_said(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("open('model', 'w').write('x')"))
    engine.forget(ATTEMPT)
    assert (tmp_path / FOLDER / "work/model").read_text() == "x"
    assert lines(engine) == [f"wrote 1 file(s) to its working directory, kept at {tmp_path / FOLDER / 'work'}"]


def test_a_working_directory_with_nothing_of_the_program_is_dropped(engine: LocalEngine, tmp_path: Path) -> None:
    run(engine, python("pass"))
    assert lines(engine) == []
    assert not (tmp_path / FOLDER / "work").exists()
    engine.forget(ATTEMPT)
    assert look(engine).state is ReplicaState.SUCCEEDED


def test_virtual_nodes_never_get_real_gpus(tmp_path: Path) -> None:
    from dataclasses import replace

    from tests.builders import a_node

    def visible(real: bool, virtual: bool) -> str:
        nodes = [a_node("local", 2 if real else 0), a_node("v", 2, virtual=True)]
        engine = a_local_engine(tmp_path)
        engine = LocalEngine(tmp_path, nodes=nodes, runtime=tmp_path, server_url="", token=lambda _: "", uv="")
        launch = a_launch()
        replica = replace(launch.replicas[0], node="v" if virtual else "local", devices=("0", "1"))
        request = engine.render(replace(launch, replicas=(replica,)))
        return str(request.replicas["chief-0"]["visible_devices"])

    assert visible(real=False, virtual=True) == "0,1"
    assert visible(real=True, virtual=True) == ""
    assert visible(real=True, virtual=False) == "0,1"


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_runtime_that_is_damaged_while_the_server_runs_is_packed_again(
    engine: LocalEngine, tmp_path: Path, damage: str
) -> None:
    (runtime,) = (tmp_path / "cache").glob("runtime-*.pyz")
    if damage == "removed":
        runtime.unlink()
    else:
        runtime.write_bytes(runtime.read_bytes()[:1000])
    assert run(engine, python("print('hello')")).state is ReplicaState.SUCCEEDED


def test_a_replica_whose_runtime_is_gone_when_it_has_failed_is_lost_and_says_why(
    engine: LocalEngine, tmp_path: Path
) -> None:
    flag = tmp_path / "end"
    script = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(3)"
    engine.start(engine.render(python(script, str(flag))))
    until(engine, ReplicaState.UP)
    (runtime,) = (tmp_path / "cache").glob("runtime-*.pyz")
    runtime.write_bytes(b"")
    flag.touch()
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert seen.state is ReplicaState.LOST and "the runtime was damaged while this ran" in seen.message
    assert "Traceback" not in (tmp_path / FOLDER / "supervisor.err").read_text()


def test_the_address_of_the_server_is_written_again_when_it_is_damaged(engine: LocalEngine, tmp_path: Path) -> None:
    file = tmp_path / "cache" / "server-url"
    file.write_bytes(b"\xff\xfe\x00")
    engine.nodes()
    assert file.read_text() == "http://127.0.0.1:9"


CHILD = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('up', flush=True); time.sleep(600)"


@pytest.mark.parametrize("is_heir", [False, True])
def test_a_replica_whose_folder_is_removed_is_lost_and_nothing_of_it_runs_on(
    engine: LocalEngine, tmp_path: Path, is_heir: bool
) -> None:
    engine.start(engine.render(python(CHILD)))
    wait_until(lambda: "up" in lines(engine))
    found = [p for p in psutil.process_iter() if _bears_mark(p, engine)]
    assert len(found) >= 3, "the supervisor, the program and its child"
    looks = a_local_engine(tmp_path) if is_heir else engine
    shutil.rmtree(tmp_path / "runs" / ATTEMPT)
    attempt = an_attempt()
    attempt = replace(attempt, replicas=tuple(replace(one, seen=ReplicaState.UP) for one in attempt.replicas))

    def lost() -> str:
        (seen,) = looks.poll({ATTEMPT: attempt})[ATTEMPT]
        return seen.message if seen.state is ReplicaState.LOST else ""

    assert "was removed while it ran" in wait_until(lost)
    wait_until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in found))


def _bears_mark(process: psutil.Process, engine: LocalEngine) -> bool:
    try:
        return process.environ().get(MARK) == engine._marks(ATTEMPT, "chief-0")[MARK]
    except psutil.Error:
        return False


def test_what_the_database_has_lost_is_let_be_and_nothing_is_started_beside_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    flag = tmp_path / "end"
    script = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    engine.start(engine.render(python(script, str(flag))))
    until(engine, ReplicaState.UP)
    heir = a_local_engine(tmp_path)
    assert heir.attempts() == [ATTEMPT]
    heir.adopt([], unknown=[ATTEMPT])
    assert look(heir).state is ReplicaState.UP
    other = heir.render(replace(python("print(1)"), attempt="p/other.1"))
    with pytest.raises(Unavailable, match="does not know"):
        heir.start(other)
    assert heir.put_away([ATTEMPT], tmp_path / "away") == {ATTEMPT}, "it runs"
    heir.adopt([])
    assert heir.put_away([ATTEMPT], tmp_path / "away") == set() and heir.attempts() == []
    assert (tmp_path / "away" / ATTEMPT / "chief-0" / "log.jsonl").exists()


def test_a_large_gang_starts_in_portions(engine: LocalEngine) -> None:
    rings: list[int] = []
    engine.listen(lambda: rings.append(1))
    launch = python("import time; time.sleep(60)")
    (chief,) = launch.replicas
    count = STARTS_AT_ONCE + 1
    many = replace(launch, replicas=tuple(replace(chief, index=n) for n in range(count)))

    def started() -> int:
        return sum(child.lives() for child in engine._spawned.values())

    engine.start(engine.render(many))
    assert (started(), len(rings)) == (STARTS_AT_ONCE, 1)
    engine.start(engine.render(many))
    assert (started(), len(rings)) == (count, 1)
