"""`stoker backup` and `restore`: what they say, and how they end."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from stoker.store.sql import SqlStore
from tests.cli.conftest import Cli


def test_a_home_goes_into_a_file_and_comes_back(cli: Cli, tmp_path: Path) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "token").write_text("t" * 43)
    (cli.home / "tokens.json").write_text('{"tokens": [{"name": "ann"}]}')
    (cli.home / "job-users.json").write_text("{}")
    SqlStore(cli.home / "stoker.db").close()
    folder = tmp_path / "backups"
    folder.mkdir()
    made = cli("backup", str(folder))
    (file,) = folder.iterdir()
    assert made.code == 0 and file.name in made.err and "0 jobs (0 live)" in made.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "is there already" in cli("backup", str(file)).err

    checked = cli("restore", str(file), "--check", "--json")
    assert checked.code == 0 and json.loads(checked.out)["jobs"] == 0
    refused = cli("restore", str(file))
    assert (
        refused.code != 0 and "has stoker.db, job-users.json, token already" in refused.err and "--force" in refused.err
    )
    restored = cli("restore", str(file), "--to", str(tmp_path / "new"))
    assert restored.code == 0 and f"STOKER_HOME={tmp_path / 'new'} stoker up" in restored.err
    assert (tmp_path / "new/token").read_text() == "t" * 43
    assert "1 user's token as of the backup is good again" in restored.err
    assert (tmp_path / "new/job-users.json").exists()
    for words in (("--check",), ("--to", str(tmp_path / "another"))):
        refused = cli("restore", str(folder), *words)
        assert refused.code != 0 and "it is not a file" in refused.err
    assert not (tmp_path / "another").exists()


def test_what_is_not_there_is_told(cli: Cli, tmp_path: Path) -> None:
    assert "nothing to back up" in cli("backup", str(tmp_path / "b.tar.gz")).err
    refused = cli("restore", str(tmp_path / "none"))
    assert refused.code != 0 and "there is no such file" in refused.err
    assert not cli.home.exists()


def test_the_password_of_a_database_is_never_shown(cli: Cli) -> None:
    url = "postgresql://me:canary-4711@127.0.0.1:9/stoker"
    for words in (("config", "list"), ("config", "list", "--json"), ("backup", "b.tar.gz")):
        said = cli(*words, STOKER_DATABASE=url)
        assert "canary" not in said.out + said.err
        assert "127.0.0.1" in said.out + said.err
    assert "the database cannot be read: connection failed" in cli("backup", "b.tar.gz", STOKER_DATABASE=url).err
    wrong = cli("config", "list", STOKER_DATABASE="mysql://me:canary-4711@h/x")
    assert wrong.code != 0 and "canary" not in wrong.out + wrong.err and "postgresql://" in wrong.err
    said = cli("config", "set", "database", url)
    assert "canary" not in said.out + said.err
