"""A file in the home, by which a replica elsewhere sees whether the home is on its machine as well, under the same path."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from stoker.runtime.folder import write_whole

_NAME = "home.mark"


class Mark:
    """Written anew by every server, so that a copy of the home, made some day, is not taken for it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._text = ""

    def words(self) -> Mapping[str, str]:
        """What a replica is told: the home, the file, and what has to be in it."""
        path = self._home / _NAME
        if not self._text:
            self._text = secrets.token_hex(16)
            write_whole(str(path), self._text)
        return {"home": str(self._home), "path": str(path), "text": self._text}
