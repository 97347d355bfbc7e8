"""Settings: where each comes from, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config import read_config, write_setting
from stoker.core.errors import BadSpec
from stoker.settings import SETTINGS


def test_a_flag_beats_the_environment_beats_the_folder_beats_the_home(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    folder.mkdir()
    (home / "config.yaml").write_text("port: 1\nregion: a\nproject: p\npolicy: fifo\n")
    (folder / "stoker.yaml").write_text("port: 2\nregion: b\nproject: q\n")
    environment = {"STOKER_HOME": str(home), "STOKER_PORT": "3", "STOKER_REGION": "c"}
    config = read_config(environment, folder, {"port": 4})
    assert (config["port"], config["region"], config["project"], config["host"]) == (4, "c", "q", "127.0.0.1")
    assert config.values["port"].source == "flag" and config.values["host"].source == "default"


def test_the_home_is_the_users_data_folder(tmp_path: Path) -> None:
    assert read_config({"XDG_DATA_HOME": str(tmp_path)}).home == tmp_path / "stoker"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("port", "abc", "a port is a number"),
        ("port", "70000", "a port is a number"),
        ("port", "-1", "a port is a number"),
        ("auth", "maybe", "true or false"),
        ("grace_seconds", "soon", "seconds"),
        ("buckets", "a", "name=value"),
        ("unmapped_buckets", "moon", "one of auto, here, cloud"),
        ("alerts_networks", "10.20.0.1/16", "has host bits set"),
        ("alerts_networks", "the office", "networks such as 10.20.0.0/16"),
        ("smtp", "mail.example.org", "smtp://[USER@]HOST[:PORT]"),
        ("smtp", "smtp://host:99999", "smtp://[USER@]HOST[:PORT]"),
        ("smtp", "https://host", "smtp://[USER@]HOST[:PORT]"),
        ("smtp", "smtp://host/path", "smtp://[USER@]HOST[:PORT]"),
        ("smtp_password", "pässword", "ASCII"),
        ("alerts_from", "stoker", "an address such as"),
        ("alerts_from", "a@b\nBcc: c@d", "an address such as"),
    ],
)
def test_a_wrong_value_is_said_with_its_source(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as refused:
        read_config({"STOKER_HOME": str(tmp_path), f"STOKER_{name.upper()}": text})
    (violation,) = refused.value.violations
    assert violation.field == name and words in violation.description and "environment" in violation.description


def test_what_is_wrong_with_a_mail_server_is_said_without_its_password(tmp_path: Path) -> None:
    environment = {"STOKER_HOME": str(tmp_path), "STOKER_SMTP": "smtp://ada:hunter2@mail.example.org"}
    with pytest.raises(BadSpec, match="goes into the setting smtp_password") as refused:
        read_config(environment)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(BadSpec) as refused:
        read_config({"STOKER_HOME": str(tmp_path), "STOKER_SMTP_PASSWORD": "hünter2"})
    assert "nter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("alerts_networks", "10.20.0.0/16, fd00::/8,192.168.1.7", ["10.20.0.0/16", "fd00::/8", "192.168.1.7/32"]),
        ("smtp", "smtps://ada%40x@mail.example.org:465", "smtps://ada%40x@mail.example.org:465"),
        ("alerts_from", "stoker@example.org", "stoker@example.org"),
    ],
)
def test_what_alerts_need_is_read(name: str, text: str, value: object, tmp_path: Path) -> None:
    assert read_config({"STOKER_HOME": str(tmp_path), f"STOKER_{name.upper()}": text})[name] == value


def test_an_unknown_key_names_the_nearest_and_all_mistakes_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("prot: 1\nauth: maybe\n")
    with pytest.raises(BadSpec) as refused:
        read_config({"STOKER_HOME": str(tmp_path)})
    assert "did you mean port?" in str(refused.value) and len(refused.value.violations) == 2


@pytest.mark.parametrize("text", ["{", "- a\n", "a: &x [1]\nb: " + "[" * 5000])
def test_a_file_that_is_no_table_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(BadSpec):
        read_config({"STOKER_HOME": str(tmp_path)})


def test_kept_settings_are_read_back_and_dropped(tmp_path: Path) -> None:
    config = read_config({"STOKER_HOME": str(tmp_path)})
    write_setting(config, "buckets", "data=/srv/data,other=/x")
    again = read_config({"STOKER_HOME": str(tmp_path)})
    assert again["buckets"] == {"data": "/srv/data", "other": "/x"}
    write_setting(again, "buckets", None)
    assert read_config({"STOKER_HOME": str(tmp_path)})["buckets"] == {}
    with pytest.raises(BadSpec):
        write_setting(again, "port", "abc")


def test_every_default_is_a_value_of_its_own_setting() -> None:
    for setting in SETTINGS:
        assert setting.help.endswith(".") and (setting.parse(setting.default) == setting.default)
