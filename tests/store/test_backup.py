"""A backup holds everything, appears whole, and is brought back into either database; half a backup changes nothing."""

from __future__ import annotations

import gzip
import io
import json
import random
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.config import read_config
from stoker.core.changes import Cancel, MoveJob, NodeSeen, Open, Submit
from stoker.core.errors import AlreadyExists, BadSpec, IllegalMove, NotFound, Unavailable
from stoker.core.states import JobState
from stoker.store.backup import back_up
from stoker.store.lead import HomeLead
from stoker.store.restore import check_whole, restore, verify
from stoker.store.sql import SqlStore
from tests.builders import a_job, a_node
from tests.contract.store_contract import an_attempt
from tests.postgresql import fresh_database

from .test_guards import the_end


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a token, a log, a file in a bucket and a link that leads out."""
    made = tmp_path / "home"
    for name, text in (("token", "t" * 43), ("logs/p/j.jsonl", "{}\n"), ("buckets/gs/b/model", "weights")):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    (made / "logs" / "out").symlink_to("/etc")
    return made


def fill(store: SqlStore) -> None:
    """A job that has ended, one that runs, one that waits, and one that is hidden."""
    ended = MoveJob(job="p/ended", before=JobState.ACTIVE, after=JobState.SUCCEEDED, at=2.0)
    store.commit([NodeSeen(node=a_node("n0", 4))], by="loop")
    store.commit([Submit(job=a_job("ended", gpus=2)), Open(attempt=an_attempt("p/ended"))], by="u")
    store.commit([*the_end("p/ended.1"), ended], by="loop")
    store.commit([Submit(job=a_job(gpus=2)), Open(attempt=an_attempt()), Submit(job=a_job("é\u2028k"))], by="u")


def everything(store: SqlStore) -> tuple[object, ...]:
    """All that can be asked of a store."""
    found = store.jobs("p"), list(store.story()), store.world(), store.nodes(), store.ended(0.0, 9)
    return (*found, [store.attempts(listed.job.id) for listed in found[0]])


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_what_is_backed_up_is_brought_back(
    home: Path, database: Path | str, target: str, tmp_path: Path, postgresql_server: str
) -> None:
    setting = "" if isinstance(database, Path) else database
    store = SqlStore(setting or home / "stoker.db")
    fill(store)
    expected = everything(store)
    made = back_up(home, setting, tmp_path / "b.tar.gz", 5.0, files=True)  # while the store is open
    store.commit([Cancel(job="p/j", why="after the backup", at=9.0)], by="u")
    store.close()
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    assert made.summary == "3 jobs (2 live), 9 events, 1 log, 1 file"

    with fresh_database(postgresql_server) as url:
        where = url if target == "postgresql" else ""
        found, old = restore(tmp_path / "b.tar.gz", tmp_path / "new", where)
        assert (found, old) == (made, None)
        again = SqlStore(where or tmp_path / "new" / "stoker.db")
        assert everything(again) == expected
        with pytest.raises(IllegalMove):  # the guards are back
            again.commit([Open(attempt=an_attempt("p/ended", 2))], by="loop")
        again.commit([*the_end("p/j.1"), Submit(job=a_job("more", gpus=1))], by="u")  # numbers go on
        again.commit([Open(attempt=an_attempt("p/more"))], by="loop")
        again.close()
    assert (tmp_path / "new/buckets/gs/b/model").read_text() == "weights"
    assert stat.S_IMODE((tmp_path / "new/token").stat().st_mode) == 0o600
    assert not (tmp_path / "new/logs/out").exists()


def test_a_home_that_is_used_or_full_is_refused_and_moved_aside_by_force(home: Path, tmp_path: Path) -> None:
    store = SqlStore(home / "stoker.db")
    fill(store)
    store.close()
    file = tmp_path / "b.tar.gz"
    back_up(home, "", file, 5.0)
    with pytest.raises(AlreadyExists, match="has stoker"):
        restore(file, home, "")
    lead = HomeLead(home)
    assert lead.take()
    with pytest.raises(Unavailable, match="a server uses"):
        restore(file, home, "", force=True)
    lead.release()
    (home / "token").write_text("another token, which is kept")
    _, old = restore(file, home, "", force=True)
    assert old is not None and (old / "token").read_text() == "another token, which is kept"
    assert (old / "stoker.db").exists() and (home / "token").read_text() == "t" * 43


def test_what_a_postgresql_database_held_is_kept_as_a_backup(
    home: Path, postgresql_database: str, tmp_path: Path
) -> None:
    store = SqlStore(postgresql_database)
    store.lead("http://a:1")
    fill(store)
    store.close()
    file = tmp_path / "b.tar.gz"
    back_up(home, postgresql_database, file, 5.0)
    (home / "config.yaml").write_text(json.dumps({"database": postgresql_database}))
    with pytest.raises(AlreadyExists):
        restore(file, home, postgresql_database)
    _, old = restore(file, home, postgresql_database, force=True)
    assert old is not None and verify(old / "database.tar.gz").rows["jobs"] == 3
    again = SqlStore(postgresql_database)
    assert len(again.jobs("p")) == 3
    assert again.lead("http://b:1") == 2, "terms go on: who led before is still refused"
    again.close()


def test_settings_name_the_database_that_was_restored_into(home: Path, tmp_path: Path) -> None:
    SqlStore(home / "stoker.db").close()
    (home / "config.yaml").write_text("database: postgresql://elsewhere/x\nregion: europe-west4\n")
    back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    restore(tmp_path / "b.tar.gz", tmp_path / "new", "")
    assert (tmp_path / "new/config.yaml").read_text() == "region: europe-west4\n"


def test_a_backup_is_never_written_over_nor_half(home: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        back_up(tmp_path, "", tmp_path / "b.tar.gz", 5.0)
    SqlStore(home / "stoker.db").close()
    (tmp_path / "b.tar.gz").write_text("mine")
    with pytest.raises(AlreadyExists):
        back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    for place in (Path("/dev/full"), tmp_path / "none"):
        with pytest.raises(Unavailable, match="there is no folder"):
            back_up(home, "", place / "b.tar.gz", 5.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "home"]


def rewritten(source: Path, target: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    """A copy of an archive, with its members changed."""
    with tarfile.open(source) as archive:
        members = [(m, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(target, "w:gz") as archive:
        for info, content in members:
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target


def a_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b"evil"


HOSTILE: dict[str, Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]] = {
    "climbs": lambda members: members.insert(0, a_member("home/logs/../../evil")),
    "absolute": lambda members: members.insert(0, a_member("/tmp/evil")),
    "absolute within": lambda members: members.insert(0, a_member("home//etc/evil")),
    "backslash": lambda members: members.insert(0, a_member("home/logs/..\\evil")),
    "elsewhere in the home": lambda members: members.insert(0, a_member("home/cache/evil.py")),
    "a link": lambda members: members.insert(0, a_member("home/logs/evil", tarfile.SYMTYPE, "/etc/passwd")),
    "a hard link": lambda members: members.insert(0, a_member("home/logs/evil", tarfile.LNKTYPE, "home/token")),
    "a device": lambda members: members.insert(0, a_member("home/logs/evil", tarfile.CHRTYPE)),
    "a folder": lambda members: members.insert(0, a_member("home/logs/evil", tarfile.DIRTYPE)),
    "not in the manifest": lambda members: members.insert(0, a_member("home/logs/p/evil.jsonl")),
    "twice": lambda members: members.insert(0, members[0]),
    "after the end": lambda members: members.append(a_member("home/logs/p/evil.jsonl")),
    "without a part": lambda members: members.__delitem__(0),
    "without its end": lambda members: members.__delitem__(-1),
    "another table": lambda members: members.insert(0, a_member("tables/lead.jsonl")),
    "changed": lambda members: members.__setitem__(0, (members[0][0], members[0][1].replace(b"p/j", b"p/x"))),
    "no manifest": lambda members: members.__setitem__(-1, (members[-1][0], b"[" * 100_000)),
    "newer": lambda members: members.__setitem__(-1, (members[-1][0], members[-1][1].replace(b"-1", b"-9"))),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_what_is_no_whole_backup_changes_nothing(home: Path, tmp_path: Path, how: str) -> None:
    store = SqlStore(home / "stoker.db")
    fill(store)
    store.close()
    back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    bad = rewritten(tmp_path / "b.tar.gz", tmp_path / "bad.tar.gz", HOSTILE[how])
    with pytest.raises(BadSpec, match="no whole backup"):
        restore(bad, tmp_path / "new", "")
    assert not (tmp_path / "new").exists() and not (tmp_path / "evil").exists()


def test_what_was_cut_off_or_is_something_else_is_refused(home: Path, tmp_path: Path) -> None:
    SqlStore(home / "stoker.db").close()
    back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    whole = (tmp_path / "b.tar.gz").read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-200], b"", b"text", gzip.compress(b"no tar" * 1000)):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(BadSpec):
            verify(tmp_path / "bad")
    with pytest.raises(BadSpec, match="no such file"):
        verify(tmp_path / "none")
    with pytest.raises(BadSpec, match="it is not a file"):
        verify(tmp_path)


def test_what_is_damaged_is_told_from_what_was_cut_off(home: Path, tmp_path: Path) -> None:
    SqlStore(home / "stoker.db").close()
    (home / "logs/p/noise.jsonl").write_bytes(random.Random(1).randbytes(100_000))
    back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    whole = bytearray((tmp_path / "b.tar.gz").read_bytes())
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadSpec) as cut:
        verify(tmp_path / "cut")
    assert "it is damaged" not in str(cut.value)
    told = ""
    for at in range(200, len(whole) - 8, len(whole) // 50):
        bad = bytearray(whole)
        bad[at] ^= 4
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(BadSpec) as found:
            verify(tmp_path / "bad")
        told += str(found.value)
    assert "it is damaged" in told and "not written whole" not in told


def test_after_a_restore_that_was_cut_off_no_server_starts_until_another_is_whole(home: Path, tmp_path: Path) -> None:
    store = SqlStore(home / "stoker.db")
    fill(store)
    store.close()
    back_up(home, "", tmp_path / "b.tar.gz", 5.0)
    (home / "stoker.db.new").mkdir()  # in the way of what it writes
    with pytest.raises(Unavailable, match="Is a directory") as failed:
        restore(tmp_path / "b.tar.gz", home, "", force=True)
    assert "nothing was changed" not in failed.value.fix and "--force" in failed.value.fix
    with pytest.raises(Unavailable, match="has not come to its end"):
        embedded.start(read_config({"STOKER_HOME": str(home)}), ("--port=0",))
    (home / "stoker.db.new").rmdir()
    restore(tmp_path / "b.tar.gz", home, "", force=True)
    check_whole(home)
    again = SqlStore(home / "stoker.db")
    assert len(again.jobs("p")) == 3
    again.close()
