"""Reads the settings of a process, and writes them (settings.py has their table).

Where a value comes from, the first that has it: a flag, the environment (STOKER_<NAME>), `stoker.yaml` in the current
folder, `$STOKER_HOME/config.yaml`, the default. An unknown key is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.core.errors import BadSpec, Violation
from stoker.settings import BY_NAME, SECRETS, SETTINGS


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


def default_home(environment: Mapping[str, str]) -> str:
    """The user's data folder, by the habits of the system."""
    if sys.platform == "darwin":
        return str(Path("~/Library/Application Support/stoker").expanduser())
    return str(Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "stoker")


_PASSWORD = re.compile(r"(://[^:/@]*:).*(?=@)|(password=)[^&]*")


def shown(name: str, value: Any) -> Any:
    """The value of a setting as it may be shown; of a secret only that it is set, and of a URL all but its password."""
    if name in ("database", "smtp"):
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


_FILE_FIX = "put it right, bring it back from a backup, or remove it: then every setting has its default"


def _read_file(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        read = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, OSError, RecursionError, ValueError, TypeError) as error:
        raise BadSpec(
            [Violation(str(path), f"cannot be read as YAML: {' '.join(str(error).split())}")],
            fix=_FILE_FIX,
        ) from error
    if not isinstance(read, dict):
        raise BadSpec([Violation(str(path), "a table of settings is needed")], fix=_FILE_FIX)
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
