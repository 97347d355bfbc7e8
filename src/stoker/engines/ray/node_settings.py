"""What the site's settings say of programs on Ray's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.core.launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings that are the same for all nodes. What a node can do of it, it finds out itself (runtime/isolation.py)."""

    isolation: str = "0"  # the setting: auto, 0, 1 or 2
    inherited: tuple[str, ...] = ()
    tmp_bytes: int = 0
    shared_folders: tuple[str, ...] = ()  # which all machines see under the same path
    job_folders: tuple[str, ...] = ()  # which every program may write to, on machines that have them
    user_of: Callable[[str], int | None] = lambda owner: None

    def isolate(self, launch: Launch) -> Mapping[str, Any]:
        """What a replica's supervisor is told of its sandbox."""
        return {
            "level": self.isolation,
            "owner": launch.owner,
            "inherit": list(self.inherited),
            "tmp_bytes": self.tmp_bytes,
            "user": None,
            "folders": list(self.job_folders),
        }

    def with_user(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """At level 2, the user of the job's owner: the same on all machines. Raises EngineError if none is left."""
        isolate = request["isolate"]
        user = self.user_of(isolate["owner"]) if isolate["level"] == "2" else None
        return {**request, "isolate": {**isolate, "user": user}}

    def folders(self, launch: Launch) -> list[dict[str, Any]]:
        """The site's folders that a launch names, by their numbers. `shared`: the shared folder that has it; empty: none."""
        return [
            {"number": n, "path": path, "shared": next((top for top in self.shared_folders if _is_in(path, top)), "")}
            for n, path in enumerate(launch.folders)
        ]


DEFAULTS = NodeSettings()
"""Nothing is kept apart, and no folder shared."""


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
