"""Settings: each is a row of one table, from which the parser, `stoker config` and docs/configuration.md are made.

Where a value comes from, the first that has it: a flag, the environment (STOKER_<NAME>), `stoker.yaml` in the current
folder, `$STOKER_HOME/config.yaml`, the default. An unknown key is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.core.errors import BadSpec, Violation

Parser = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    parse: Parser
    default: Any
    help: str


@dataclass(frozen=True, slots=True)
class Value:
    """What a setting is, and where that was said."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one process, read once."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    @property
    def home(self) -> Path:
        """Everything that a server keeps lies here."""
        return Path(self["home"])

    @property
    def shown_database(self) -> str:
        """Where the state is kept, as it may be shown."""
        return str(shown("database", self["database"])) or str(self.home)


def _text(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError("a text is needed")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes", "on"):
        return True
    if str(value).lower() in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false is needed")


def _port(value: Any) -> int:
    if not str(value).isdecimal() or int(value) > 65535:
        raise ValueError("a port is a number from 0 to 65535")
    return int(value)


def _seconds(value: Any) -> float:
    text = str(value).removesuffix("s")
    if not text.replace(".", "", 1).isdecimal() or float(text) > 86400:
        raise ValueError("seconds, from 0 to 86400, are needed")
    return float(text)


def _lease(value: Any) -> float:
    seconds = _seconds(value)
    if seconds < 3:
        raise ValueError("3 seconds or more are needed, so that it can be renewed")
    return seconds


def _limit(value: Any) -> int:
    if not str(value).isdecimal() or int(value) > 1_000_000:
        raise ValueError("a number from 0 (no limit) to 1000000 is needed")
    return int(value)


def _megabytes(value: Any) -> float:
    text = str(value)
    if isinstance(value, bool) or not text.replace(".", "", 1).isdecimal() or float(text) > 1e9:
        raise ValueError("megabytes, 0 or more, are needed")
    return float(text)


def _table(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair]
        if not all(separator for _, separator, _ in pairs):
            raise ValueError("name=value,name=value is needed")
        return {key.strip(): text.strip() for key, _, text in pairs}
    if isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values()):
        return {str(key): str(text) for key, text in value.items()}
    raise ValueError("a table of names and texts is needed")


def _days(value: Any) -> float:
    text = str(value).removesuffix("d")
    if not text.replace(".", "", 1).isdecimal() or float(text) > 36500:
        raise ValueError("days, from 0 to 36500, are needed")
    return float(text)


def _gigabytes(value: Any) -> float:
    if not str(value).replace(".", "", 1).isdecimal():
        raise ValueError("gigabytes, from 0, are needed")
    return float(value)


def _count(value: Any) -> int:
    if not str(value).isdecimal():
        raise ValueError("a whole number from 0 is needed")
    return int(value)


def _list(value: Any) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("texts with commas between, or a list of them, are needed")
    return [item.strip() for item in items if item.strip()]


def _users(value: Any) -> str:
    first, _, last = str(value).partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1000 <= int(first) <= int(last) < 2**31):
        raise ValueError("FIRST-LAST, numbers of users from 1000 up, is needed")
    return f"{int(first)}-{int(last)}"


def _one_of(*choices: str) -> Parser:
    def parse(value: Any) -> str:
        if str(value) not in choices:
            raise ValueError(f"one of {', '.join(choices)} is needed")
        return str(value)

    return parse


def _database(value: Any) -> str:
    text = _text(value)
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("a URL such as postgresql://user@host/stoker is needed, or nothing for SQLite in the home")
    return text


def default_home(environment: Mapping[str, str]) -> str:
    """The user's data folder, by the habits of the system."""
    if sys.platform == "darwin":
        return str(Path("~/Library/Application Support/stoker").expanduser())
    return str(Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "stoker")


SETTINGS: tuple[Setting, ...] = (
    Setting("home", _text, "", "Everything that a server keeps lies here. Default: the user's data folder."),
    Setting("url", _text, "", "The server to talk to. Default: the one of this home, started when it is needed."),
    Setting("token", _text, "", "The token to show to the server. Default: the one in this home."),
    Setting("project", _text, "local", "The project of jobs, where a command does not name one."),
    Setting("region", _text, "us-central1", "The region of jobs, where neither a flag nor a file names one."),
    Setting("host", _text, "127.0.0.1", "The address that the server listens on."),
    Setting("port", _port, 7077, "The port that the server listens on; 0 takes any that is free."),
    Setting("auth", _flag, True, "Whether the server asks for a token. Without it, only on loopback."),
    Setting(
        "engine",
        _one_of("local", "ray", "local,ray"),
        "local",
        "Where replicas run: `local`, this machine; `ray`, the cluster at `address` (docs/clusters.md); or both: `local,ray`.",
    ),
    Setting("address", _text, "", "The address of Ray's head: host:port."),
    Setting(
        "lease_seconds",
        _lease,
        30.0,
        "How long a replica on a machine of a cluster runs on that reaches neither the server nor the cluster's head; a third"
        " longer, and its job is started elsewhere.",
    ),
    Setting(
        "database",
        _database,
        "",
        "Where the state is kept: a URL such as `postgresql://user:password@host/stoker` (docs/reliability.md). Default:"
        " SQLite, in the file `stoker.db` in the home.",
    ),
    Setting(
        "requests_per_second",
        _limit,
        200,
        "How often a user with a token of their own may ask, twice that at once; 0: no limit. There is none for admins.",
    ),
    Setting(
        "queued_jobs_per_user", _limit, 100_000, "How many jobs of one user may wait at the same time; 0: no limit."
    ),
    Setting(
        "reserve_mb",
        _megabytes,
        64.0,
        "While the disk of the home has less free, in megabytes, new jobs and uploads are refused, so that those that run"
        " can go on.",
    ),
    Setting("hold", _flag, False, "Accept jobs, but start none (an admin's pause)."),
    Setting("fake", _text, "", "Virtual nodes to declare, such as 10x4xT4,3xn1-highmem-8."),
    Setting(
        "site",
        _text,
        "",
        "The site file: queues, quotas, who goes first (docs/site.md). A relative path starts at the home. Default:"
        " `site.toml` in the home, if it is there.",
    ),
    Setting(
        "policy",
        _text,
        "priority",
        "The order of the queue: a policy (docs/site.md). The site file's goes over the default, a setting over both.",
    ),
    Setting(
        "placer",
        _text,
        "best-fit",
        "How a gang is placed on nodes: a placer (docs/site.md). As with `policy`, a setting goes over the site file.",
    ),
    Setting("grace_seconds", _seconds, 30.0, "Between SIGTERM and SIGKILL, when a replica is stopped."),
    Setting(
        "isolation",
        _one_of("auto", "0", "1", "2"),
        "auto",
        "How far programs are kept apart: level 0, 1 or 2 (docs/security.md); `auto`: 1 where bubblewrap works, else 0.",
    ),
    Setting("job_folders", _list, [], "Folders that every program may write to, at isolation levels 1 and 2."),
    Setting("inherit_env", _list, [], "Variables of the server that reach programs at isolation levels 1 and 2."),
    Setting("job_users", _users, "20000-29999", "The numbers of the users that jobs run as, at isolation level 2."),
    Setting(
        "job_processes",
        _count,
        10_000,
        "Most processes and threads of a replica, where cgroups can hold it to that; 0: no limit.",
    ),
    Setting(
        "job_memory_gb", _gigabytes, 0.0, "Most memory of a replica, where cgroups can hold it to that; 0: no limit."
    ),
    Setting(
        "job_tmp_gb",
        _gigabytes,
        0.0,
        "Most that each of `/tmp`, `/var/tmp`, `/run` and `/dev/shm` of a replica in a sandbox holds, in memory; 0: half of the"
        " machine's.",
    ),
    Setting("keep_runs_days", _days, 14.0, "How long the folder of an attempt is kept when it has ended."),
    Setting(
        "hang_seconds",
        _seconds,
        3600.0,
        "A job of which no replica prints, beats or makes progress for so long counts as hung (docs/running.md); 0: never.",
    ),
    Setting("buckets", _table, {}, "Buckets that are folders of this machine: name → folder."),
    Setting(
        "unmapped_buckets",
        _one_of("auto", "here", "cloud"),
        "auto",
        "Where other buckets are: `here` below home, or in the `cloud`; `auto`: here unless there are cloud credentials.",
    ),
    Setting("runtimes", _table, {}, "Python interpreters for runtimeVersion: version → path. Default: Stoker's own."),
    Setting(
        "images",
        _table,
        {},
        "Container images that an environment of this machine stands in for: image, or a pattern like `gcr.io/me/*` →"
        " interpreter and entry point, such as"
        " `/opt/env/bin/python -m trainer.task`.",
    ),
    Setting("strict_runtimes", _flag, False, "Refuse a runtimeVersion that `runtimes` does not have."),
)

SECRETS = frozenset({"token"})
"""Settings that are never shown: a screen is looked at, and a log is kept."""

BY_NAME = {setting.name: setting for setting in SETTINGS}


_PASSWORD = re.compile(r"(://[^:/@]*:).*(?=@)|(password=)[^&]*")


def shown(name: str, value: Any) -> Any:
    """The value of a setting as it may be shown; of a secret only that it is set, and of a URL all but its password."""
    if name == "database":
        return _PASSWORD.sub(r"\1\2***", str(value))
    return "(set)" if name in SECRETS and value else value


def read_config(
    environment: Mapping[str, str], folder: Path | None = None, flags: Mapping[str, Any] | None = None
) -> Config:
    """The settings of this process. Raises BadSpec with everything that is wrong with them."""
    home = str((flags or {}).get("home") or environment.get("STOKER_HOME") or default_home(environment))
    home = os.path.abspath(os.path.expanduser(home))
    layers: list[tuple[str, Mapping[str, Any]]] = [
        ("flag", {key: value for key, value in (flags or {}).items() if value is not None}),
        (
            "environment",
            {n: environment[f"STOKER_{n.upper()}"] for n in BY_NAME if f"STOKER_{n.upper()}" in environment},
        ),
    ]
    for path in ((folder / "stoker.yaml",) if folder else ()) + (Path(home) / "config.yaml",):
        if path.exists():
            layers.append((str(path), _read_file(path)))
    violations = [v for source, layer in layers for v in _unknown(source, layer)]
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        values[setting.name] = Value(setting.default, "default")
        for source, layer in layers:
            if setting.name in layer:
                try:
                    values[setting.name] = Value(setting.parse(layer[setting.name]), source)
                except (ValueError, TypeError) as error:
                    violations.append(
                        Violation(setting.name, f"{shown(setting.name, layer[setting.name])!r} ({source}): {error}")
                    )
                break
    values["home"] = Value(home, values["home"].source)
    if violations:
        raise BadSpec(violations, fix="stoker config list shows every setting, its type and where its value comes from")
    return Config(values)


def write_setting(config: Config, name: str, text: str | None) -> None:
    """Keep a setting in `$STOKER_HOME/config.yaml`, or drop it (None). Raises BadSpec."""
    import yaml

    path = config.home / "config.yaml"
    kept = dict(_read_file(path)) if path.exists() else {}
    unknown = _unknown("the command line", {name: text})
    if unknown:
        raise BadSpec(unknown)
    if text is None:
        kept.pop(name, None)
    else:
        try:
            kept[name] = BY_NAME[name].parse(text)
        except (ValueError, TypeError) as error:
            raise BadSpec([Violation(name, f"{shown(name, text)!r}: {error}")]) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.touch(mode=0o600)  # a database's password may be in it
    temporary.write_text(yaml.safe_dump(kept, sort_keys=True))
    temporary.replace(path)


def _read_file(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        read = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, OSError, RecursionError, UnicodeDecodeError) as error:
        raise BadSpec([Violation(str(path), f"cannot be read as YAML: {error}")]) from error
    if not isinstance(read, dict):
        raise BadSpec([Violation(str(path), "a table of settings is needed")])
    return read


def _unknown(source: str, layer: Mapping[str, Any]) -> list[Violation]:
    found = []
    for key in layer:
        if key not in BY_NAME:
            near = difflib.get_close_matches(str(key), BY_NAME, n=1)
            found.append(
                Violation(str(key), f"no such setting ({source})" + (f"; did you mean {near[0]}?" if near else ""))
            )
    return found
