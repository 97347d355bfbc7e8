"""A copy of a folder that lies with the site: what is brought, what is sent, in which order, and what is never followed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stoker.runtime.mirror import LONGEST_UNSENT_SECONDS, Mirror, Traffic
from stoker.runtime.server import Hindered, Unacceptable, Unreachable
from stoker.runtime.site_folder import Changed, Stamp


class FakeSite:
    """A folder of the site, in memory. Implements what a Mirror asks of SiteFolder."""

    def __init__(self) -> None:
        self.content: dict[str, tuple[bytes, int]] = {}  # path → bytes, and when it was written
        self.did: list[str] = []
        self.before_send: Callable[[str], None] = lambda path: None
        self.moment = 1_000
        self.most_bytes: int | None = None  # of a file, before the link is cut

    def put(self, path: str, data: bytes) -> None:
        """Another one writes there."""
        self.moment += 1
        self.content[path] = (data, self.moment)

    def files(self, below: str = "") -> dict[str, Stamp]:
        return {path: [len(data), at] for path, (data, at) in self.content.items()}

    def bring(self, path: str, file: IO[bytes], give_up: Callable[[], bool] = lambda: False) -> None:
        if path not in self.content:
            raise Unacceptable("no such file")
        self.did.append(f"bring {path}")
        file.write(self.content[path][0][: self.most_bytes])

    def send(self, path: str, file: IO[bytes], sent: Callable[[int], None] = lambda count: None) -> Stamp:
        self.before_send(path)
        if any(path.startswith(other + "/") or other.startswith(path + "/") for other in self.content):
            raise Unacceptable(f"{path} is a folder, or below a file")
        data = file.read()
        sent(len(data))
        self.did.append(f"send {path}")
        self.put(path, data)
        return [len(data), self.content[path][1]]

    def remove(self, path: str) -> None:
        self.did.append(f"remove {path}")
        for other in [one for one in self.content if one == path or one.startswith(path + "/")]:
            del self.content[other]

    def close(self) -> None:
        pass


class Clock:
    """Seconds that go on by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def site() -> FakeSite:
    """An empty one."""
    return FakeSite()


@pytest.fixture
def clock() -> Clock:
    """At 0."""
    return Clock()


@pytest.fixture
def refused() -> list[tuple[str, str]]:
    """What was refused so far."""
    return []


@pytest.fixture
def mirror(site: FakeSite, clock: Clock, refused: list[tuple[str, str]], tmp_path: Path) -> Iterator[Mirror]:
    """One that is held, with its folder here."""
    made = a_mirror(tmp_path / "folders" / "0", site, clock, refused)
    assert made.hold()
    os.makedirs(made.folder)
    yield made
    made.release()


def a_mirror(folder: Path, site: FakeSite, clock: Clock, refused: list[tuple[str, str]]) -> Mirror:
    """A Mirror of this site."""
    note = lambda path, why: refused.append((path, why))  # noqa: E731
    return Mirror(str(folder), site, Traffic(clock), note, clock=clock)  # type: ignore[arg-type]


def bring(mirror: Mirror) -> list[tuple[int, int]]:
    """All that is there. Returns what was told of it."""
    told: list[tuple[int, int]] = []
    mirror.bring(lambda files, size: told.append((files, size)), lambda: False)
    return told


def write(mirror: Mirror, path: str, text: str, at: int = 0) -> Path:
    """The program writes a file, at some moment."""
    file = Path(mirror.folder) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if at:
        os.utime(file, ns=(at, at))
    return file


def test_what_is_there_is_brought_with_its_time_and_not_sent_back(mirror: Mirror, site: FakeSite) -> None:
    site.put("given/a.txt", b"hello")
    assert bring(mirror) == [(1, 5)]
    here = Path(mirror.folder) / "given" / "a.txt"
    assert here.read_bytes() == b"hello" and here.stat().st_mtime_ns == site.content["given/a.txt"][1]
    assert mirror.look(is_final=True) and site.did == ["bring given/a.txt"]


def test_a_file_is_sent_once_nobody_writes_to_it(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "model", "half", at=5)
    assert not mirror.look() and not site.content
    write(mirror, "model", "whole", at=6)
    assert not mirror.look() and not site.content
    assert mirror.look() and site.content["model"][0] == b"whole"
    assert mirror.look() and site.did == ["send model"]


def test_at_the_end_everything_is_sent_at_once(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "model", "whole")
    assert mirror.look(is_final=True) and site.content["model"][0] == b"whole"


def test_a_file_that_is_always_written_to_is_sent_now_and_then(mirror: Mirror, site: FakeSite, clock: Clock) -> None:
    for second in range(int(LONGEST_UNSENT_SECONDS) + 2):
        clock.now = second
        write(mirror, "log", "x" * second, at=1 + second)
        mirror.look()
    assert site.did == ["send log"]


def test_a_list_of_checkpoints_comes_after_what_it_names_and_logs_come_last(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "events.out.tfevents.1", "log", at=1)
    write(mirror, "z/weights", "w", at=2)
    write(mirror, "a/checkpoint", "z/weights", at=3)
    mirror.look(is_final=True)
    assert site.did == ["send z/weights", "send a/checkpoint", "send events.out.tfevents.1"]


def test_what_is_removed_here_goes_there_after_what_stands_for_it(mirror: Mirror, site: FakeSite) -> None:
    old = write(mirror, "step-1", "old")
    mirror.look(is_final=True)
    old.unlink()
    write(mirror, "step-2", "new")
    mirror.look(is_final=True)
    assert site.did == ["send step-1", "send step-2", "remove step-1"] and list(site.content) == ["step-2"]


def test_a_file_in_the_place_of_a_folder_is_not_removed_with_it(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "x/below", "1")
    mirror.look(is_final=True)
    shutil.rmtree(Path(mirror.folder) / "x")
    write(mirror, "x", "2")
    assert mirror.look(is_final=True) and list(site.content) == ["x"]
    (Path(mirror.folder) / "x").unlink()
    write(mirror, "x/y", "3")
    assert mirror.look(is_final=True) and list(site.content) == ["x/y"]


def test_a_list_that_is_written_again_waits_for_what_it_names(mirror: Mirror, site: FakeSite, clock: Clock) -> None:
    """However long ago it was sent before; and what it named before stays until then."""
    write(mirror, "data-1", "1", at=1)
    write(mirror, "list", "data-1", at=2)
    mirror.look(is_final=True)
    clock.now = 100.0
    write(mirror, "data-2", "2", at=3)
    write(mirror, "list", "data-2", at=4)
    (Path(mirror.folder) / "data-1").unlink()
    for _ in range(2):
        named = site.content["list"][0].decode()
        assert named in site.content
        clock.now += 1.0
        mirror.look()
    assert site.content["list"][0] == b"data-2" and list(site.content) == ["list", "data-2"]


def test_nothing_is_sent_before_what_is_older_and_is_being_written(
    mirror: Mirror, site: FakeSite, clock: Clock
) -> None:
    write(mirror, "list", "data", at=5)
    mirror.look()  # seen once
    write(mirror, "data", "half", at=3)  # an older time: its writer set it so
    clock.now = 1.0
    mirror.look()
    assert not site.content
    clock.now = 2.0
    mirror.look()
    assert site.did == ["send data", "send list"]


def test_what_is_rewritten_while_others_are_sent_is_not_sent_half(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "first", "1", at=1)
    last = write(mirror, "last", "whole", at=2)
    mirror.look()

    def writes_meanwhile(path: str) -> None:
        if path == "first":
            last.write_text("ha")

    site.before_send = writes_meanwhile
    assert not mirror.look() and list(site.content) == ["first"]


def test_what_cannot_be_read_for_a_moment_is_not_removed(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "kept/model", "1")
    mirror.look(is_final=True)
    folder = Path(mirror.folder)
    folder.rename(folder.with_name("away"))
    assert not mirror.look(is_final=True) and list(site.content) == ["kept/model"]
    folder.with_name("away").rename(folder)
    (folder / "kept").rename(folder / "other")  # for a moment, as who swaps two folders does
    mirror.look()
    (folder / "other").rename(folder / "kept")
    mirror.look()
    assert site.did == ["send kept/model"]


def test_a_pipe_in_the_place_of_a_folder_keeps_nobody_waiting(mirror: Mirror, site: FakeSite) -> None:
    os.mkfifo(Path(mirror.folder) / "pipe")
    write(mirror, "a", "1")
    assert mirror.look(is_final=True) and list(site.content) == ["a"]


def test_what_the_site_cannot_take_now_keeps_back_what_is_newer_for_a_while(mirror: Mirror, site: FakeSite) -> None:
    def is_full(path: str) -> None:
        if path == "large":
            raise Hindered("no room")

    site.before_send = is_full
    write(mirror, "before", "1", at=1)
    write(mirror, "large", "2", at=2)
    write(mirror, "list", "large", at=3)
    write(mirror, "log.txt", "4", at=4)
    with pytest.raises(Hindered):
        mirror.look(is_final=True)
    assert site.did == ["send before", "send log.txt"]
    with pytest.raises(Hindered):
        mirror.look(is_final=True, in_order=False)
    assert "send list" in site.did
    site.before_send = lambda path: None
    assert mirror.look(is_final=True)


def test_what_was_cut_off_is_not_taken_for_whole(mirror: Mirror, site: FakeSite) -> None:
    site.put("model", b"whole")
    site.most_bytes = 2
    with pytest.raises(Unreachable):
        bring(mirror)
    assert not list(Path(mirror.folder).iterdir()) and not mirror.is_there
    site.most_bytes = None
    bring(mirror)
    assert (Path(mirror.folder) / "model").read_bytes() == b"whole"


@pytest.mark.skipif(os.getuid() != 0, reason="to give files away needs root")
def test_a_copy_is_its_users(site: FakeSite, clock: Clock, tmp_path: Path) -> None:
    made = Mirror(str(tmp_path / "folders" / "0"), site, Traffic(clock), lambda *_: None, user=20_001)  # type: ignore[arg-type]
    site.put("a/b", b"1")
    assert made.hold()
    bring(made)
    for path in ("", "a", "a/b"):
        assert (Path(made.folder) / path).stat().st_uid == 20_001
    made.close()


def test_what_changes_while_it_is_sent_is_sent_again(mirror: Mirror, site: FakeSite) -> None:
    file = write(mirror, "model", "first", at=5)

    def changes(path: str) -> None:
        site.before_send = lambda path: None
        file.write_text("second")
        raise Changed(path)

    site.before_send = changes
    assert not mirror.look(is_final=True) and not site.content
    assert mirror.look(is_final=True)
    assert site.content["model"][0] == b"second"


def test_what_the_site_refuses_is_told_and_the_rest_is_sent(
    mirror: Mirror, site: FakeSite, refused: list[tuple[str, str]]
) -> None:
    def refuses(path: str) -> None:
        if path == "a":
            raise Unacceptable("not this name")

    site.before_send = refuses
    write(mirror, "a", "1", at=1)
    write(mirror, "b", "2", at=2)
    for _ in range(2):
        assert mirror.look(is_final=True)
    assert refused == [("a", "not this name")] and list(site.content) == ["b"]


def test_nothing_is_lost_while_the_site_is_away(mirror: Mirror, site: FakeSite) -> None:
    def is_away(path: str) -> None:
        raise Unreachable("nobody answers")

    site.before_send = is_away
    write(mirror, "a", "1")
    with pytest.raises(Unreachable):
        mirror.look(is_final=True)
    site.before_send = lambda path: None
    assert mirror.look(is_final=True) and site.content["a"][0] == b"1"


def test_no_link_is_followed_whatever_it_leads_to(mirror: Mirror, site: FakeSite, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    os.symlink(secret, Path(mirror.folder) / "folder")
    os.symlink(secret / "key", Path(mirror.folder) / "file")
    os.mkfifo(Path(mirror.folder) / "pipe")
    mirror.look(is_final=True)
    assert not site.content
    site.put("folder/key", b"overwritten")
    with pytest.raises(OSError):
        mirror.refresh()
    assert (secret / "key").read_text() == "k"


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_written_through(
    mirror: Mirror, site: FakeSite, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    os.symlink(target, Path(mirror.folder) / "a")
    site.put("a", b"theirs")
    mirror.refresh()
    assert target.read_text() == "mine" and (Path(mirror.folder) / "a").read_bytes() == b"theirs"


def test_what_others_write_is_brought_and_what_they_remove_goes(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "mine", "1")
    mirror.look(is_final=True)
    site.put("theirs", b"2")
    mirror.refresh()
    assert (Path(mirror.folder) / "theirs").read_text() == "2"
    site.put("mine", b"3")
    del site.content["theirs"]
    mirror.refresh()
    assert (Path(mirror.folder) / "mine").read_text() == "3" and not (Path(mirror.folder) / "theirs").exists()
    mirror.look(is_final=True)
    assert site.did == ["send mine", "bring theirs", "bring mine"]


def test_what_was_changed_here_as_well_stays(mirror: Mirror, site: FakeSite) -> None:
    write(mirror, "a", "1", at=1)
    mirror.look(is_final=True)
    write(mirror, "a", "mine", at=2)
    site.put("a", b"theirs")
    mirror.refresh()
    assert (Path(mirror.folder) / "a").read_text() == "mine"
    mirror.look(is_final=True)
    assert site.content["a"][0] == b"mine"


def test_checkpoints_of_stokers_own_go_another_way(mirror: Mirror, site: FakeSite) -> None:
    site.put("checkpoints/state/step-000000140/MANIFEST.json", b"{}")
    site.put("checkpoints/fit/call-0/step-000000140/1-0/w", b"w")
    site.put("checkpoints/step-000000140/of-the-program", b"p")
    bring(mirror)
    assert site.did == ["bring checkpoints/step-000000140/of-the-program"]


def test_one_of_the_replicas_of_a_machine_brings_and_sends(
    mirror: Mirror, site: FakeSite, clock: Clock, refused: list[tuple[str, str]]
) -> None:
    other = a_mirror(Path(mirror.folder), site, clock, refused)
    assert not other.hold()
    write(mirror, "a", "1")
    mirror.look(is_final=True)
    mirror.release()
    assert other.hold() and other.is_there
    assert other.look(is_final=True) and site.did == ["send a"]  # it knows what the one before has sent
    other.release()


def test_the_link_is_measured(site: FakeSite, clock: Clock) -> None:
    traffic = Traffic(clock)

    def takes_two_seconds() -> None:
        clock.now += 2.0
        traffic.count(6_000_000)

    assert traffic.bytes_per_second == 0.0
    traffic.timed(takes_two_seconds)
    assert traffic.bytes_per_second == 3_000_000.0


class OneWriter(RuleBasedStateMachine):
    """Whatever one program does, and whenever it is looked at: at the end the site has what is here."""

    paths = st.sampled_from(["a", "b", "f/a", "f/b", "f/g/a"])

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.site, self.clock = FakeSite(), Clock()
        self.mirror = a_mirror(self.base / "0", self.site, self.clock, [])
        assert self.mirror.hold()
        os.makedirs(self.mirror.folder)
        self.moment = 1

    @rule(path=paths, text=st.text("xyz", max_size=3))
    def write(self, path: str, text: str) -> None:
        """Any file, anew."""
        self.moment += 1
        write(self.mirror, path, text, at=self.moment)

    @rule(path=paths)
    def remove(self, path: str) -> None:
        """If it is there."""
        (Path(self.mirror.folder) / path).unlink(missing_ok=True)

    @rule(seconds=st.sampled_from([0, 1, 20]))
    def look(self, seconds: int) -> None:
        """Some time later."""
        self.clock.now += seconds
        self.mirror.look()

    @rule()
    def take_over(self) -> None:
        """Another replica goes on."""
        self.mirror.release()
        self.mirror = a_mirror(self.base / "0", self.site, self.clock, [])
        assert self.mirror.hold()

    @rule()
    def end(self) -> None:
        """The program has ended."""
        assert self.mirror.look(is_final=True)
        here = Path(self.mirror.folder)
        found = {str(file.relative_to(here)): file.read_bytes() for file in here.rglob("*") if file.is_file()}
        assert {path: data for path, (data, _) in self.site.content.items()} == found

    @invariant()
    def nothing_is_sent_that_was_not_here(self) -> None:
        """Only whole texts of the program's."""
        assert all(set(data) <= set(b"xyz") for data, _ in self.site.content.values())

    def teardown(self) -> None:
        """Nothing is left."""
        self.mirror.release()
        shutil.rmtree(self.base)


TestOneWriter = OneWriter.TestCase
