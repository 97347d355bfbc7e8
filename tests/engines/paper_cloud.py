"""A cloud on paper for Ray's launcher: machines are lines of a file, and what would run on them is written down.

`provider: {type: external, module: tests.engines.paper_cloud.PaperCloud, folder: …}`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ray.autoscaler.command_runner import CommandRunnerInterface
from ray.autoscaler.node_provider import NodeProvider


class PaperCloud(NodeProvider):  # type: ignore[misc]
    """Machines that are there as soon as they are ordered."""

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        self.file = Path(provider_config["folder"]) / "machines.json"

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        """The machines with these tags."""
        return [name for name, row in self._rows().items() if tag_filters.items() <= row["tags"].items()]

    def is_running(self, node_id: str) -> bool:
        """Whether it is there."""
        return node_id in self._rows()

    def is_terminated(self, node_id: str) -> bool:
        """Whether it is gone."""
        return node_id not in self._rows()

    def node_tags(self, node_id: str) -> dict[str, str]:
        """Its tags."""
        found: dict[str, str] = self._rows()[node_id]["tags"]
        return found

    def set_node_tags(self, node_id: str, tags: dict[str, str]) -> None:
        """Change some of its tags."""
        rows = self._rows()
        rows[node_id]["tags"] |= tags
        self._write(rows)

    def external_ip(self, node_id: str) -> str:
        """Where it is reached from outside."""
        return f"192.0.2.{1 + list(self._rows()).index(node_id)}"

    def internal_ip(self, node_id: str) -> str:
        """Where it is reached from other machines."""
        return self.external_ip(node_id)

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> None:
        """Order machines."""
        rows = self._rows()
        rows |= {f"machine-{len(rows) + n}": {"config": node_config, "tags": tags} for n in range(count)}
        self._write(rows)

    def terminate_node(self, node_id: str) -> None:
        """Give one back."""
        self._write({name: row for name, row in self._rows().items() if name != node_id})

    def get_command_runner(self, log_prefix: str, node_id: str, *_: Any, **__: Any) -> CommandRunnerInterface:
        """Who runs commands there."""
        return Scribe(self.file.with_name("commands.jsonl"), node_id)

    def _rows(self) -> dict[str, dict[str, Any]]:
        return json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}

    def _write(self, rows: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(rows), encoding="utf-8")


class Scribe(CommandRunnerInterface):  # type: ignore[misc]
    """Writes down what it is told to do."""

    def __init__(self, file: Path, node: str) -> None:
        self.file, self.node = file, node

    def run(self, cmd: str | None = None, *_: Any, **how: Any) -> str:
        """Do not run a command."""
        self._note(run=cmd, environment=how.get("environment_variables") or {})
        return ""

    def run_rsync_up(self, source: str, target: str, options: Any = None) -> None:
        """Do not copy a file."""
        self._note(copy=source, to=target)

    def run_rsync_down(self, source: str, target: str, options: Any = None) -> None:
        """Nobody asks for it."""
        raise NotImplementedError

    def remote_shell_command_str(self) -> str:
        """A command that is only shown."""
        return f"ssh {self.node}"

    def run_init(self, *, as_head: bool, file_mounts: dict[str, str], sync_run_yet: bool) -> None:
        """Nothing to prepare."""

    def _note(self, **what: Any) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"node": self.node, **what}) + "\n")
