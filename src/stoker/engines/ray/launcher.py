"""Ray's own launcher, as programs of this Python: `ray up`, `ray down`, and what the head says of the cluster.

What it prints goes to the terminal as it comes. Ray itself is never imported here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from stoker.core.errors import BadSpec, EngineError, NotFound, Violation

from .clusters.launch import TOKEN_FILE

_RAY = (sys.executable, "-m", "ray.scripts.scripts")
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_UP_enable_autoscaler_v2": "1"}
_STATUS = "RAY_AUTH_MODE=token ray status"  # asked on the head, in a shell without the environment of `ray start`
_NEEDS: Mapping[str, Mapping[str, str]] = {
    "gcp": {
        "googleapiclient": "google-api-python-client",
        "google_auth_httplib2": "google-auth-httplib2",
        "cryptography": "cryptography",
    },
    "aws": {"boto3": "boto3", "cryptography": "cryptography"},
    "azure": {
        "azure.common": "azure-common",
        "azure.cli.core": "azure-cli-core",
        "azure.identity": "azure-identity",
        "azure.mgmt.compute": "azure-mgmt-compute",
        "azure.mgmt.network": "azure-mgmt-network",
        "azure.mgmt.resource": "azure-mgmt-resource",
        "msrestazure": "msrestazure",
    },
}
"""Provider → module that Ray imports → the package that has it."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """A cluster file, as far as it has to be known to hand it to Ray."""

    path: Path
    name: str
    provider: str
    copies: tuple[str, ...]  # what of this machine the launcher copies to others


def read_cluster_file(path: Path) -> ClusterFile:
    """A file that Ray's launcher can be given. Raises NotFound, or BadSpec with what it is instead."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(
            f"cannot read {path}: {error.strerror or error}", fix="stoker cluster render --out FILE writes one"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _no_cluster(path, f"is no YAML: {str(error).splitlines()[0]}") from None
    if isinstance(content, dict) and content.get("kind") == "RayCluster":
        raise BadSpec(
            [Violation(str(path), "is for Kubernetes, which Ray's launcher does not know")],
            fix=kubernetes_way(path, content),
        )
    provider = content.get("provider") if isinstance(content, dict) else None
    if not isinstance(provider, dict) or not provider.get("type") or not content.get("cluster_name"):
        raise _no_cluster(path, "is no cluster file: it has no `cluster_name` and `provider`")
    mounts = content.get("file_mounts") or {}
    return ClusterFile(
        path, str(content["cluster_name"]), str(provider["type"]), tuple(str(source) for source in mounts.values())
    )


def kubernetes_way(path: Path, content: Mapping[str, Any]) -> str:
    """What to run for a cluster on Kubernetes."""
    metadata = content.get("metadata") or {}
    name, namespace = metadata.get("name", "NAME"), metadata.get("namespace", "default")
    return (
        f"kubectl apply -f {path} · kubectl -n {namespace} get raycluster {name} · "
        f"kubectl -n {namespace} get pods -l ray.io/cluster={name} · kubectl delete -f {path}"
    )


def up(file: ClusterFile, run: Run = subprocess.run) -> int:
    """Order the head and set it up; it orders the rest. Returns the exit code of Ray's launcher."""
    _check(file.provider)
    if TOKEN_FILE in file.copies and not Path(TOKEN_FILE).expanduser().exists():
        _ray(("get-auth-token", "--generate"), run, stdout=subprocess.DEVNULL)
    for source in file.copies:
        if not Path(source).expanduser().exists():
            raise NotFound(f"{source}, which {file.path} has copied to every machine, is not there")
    return _ray(("up", "--yes", "--no-config-cache", str(file.path)), run).returncode


def down(file: ClusterFile, run: Run = subprocess.run) -> int:
    """Give back the head and all other machines. Returns the exit code of Ray's launcher."""
    _check(file.provider)
    return _ray(("down", "--yes", str(file.path)), run).returncode


def status(file: ClusterFile, run: Run = subprocess.run) -> int:
    """Print what the head knows of the machines: those that are there, come, or are wanted. Returns the exit code."""
    _check(file.provider)
    return _ray(("exec", str(file.path), _STATUS), run).returncode


def head_address(file: ClusterFile, run: Run = subprocess.run) -> str:
    """Where the head can be reached from here; empty if Ray does not say."""
    ran = _ray(("get-head-ip", str(file.path)), run, stdout=subprocess.PIPE, text=True)
    lines = (ran.stdout or "").split()
    return lines[-1] if ran.returncode == 0 and lines else ""


def _ray(words: Sequence[str], run: Run, **how: Any) -> subprocess.CompletedProcess[str]:
    return run([*_RAY, *words], env={**os.environ, **_ENVIRONMENT}, check=False, **how)


def _check(provider: str) -> None:
    """Whether Ray, and what it needs for this cloud, is installed."""
    if not _is_installed("ray"):
        raise EngineError("Ray is not installed here", fix="pip install 'stoker[ray]'")
    missing = [package for module, package in _NEEDS.get(provider, {}).items() if not _is_installed(module)]
    programs = [program for program in ("ssh", "rsync") if provider in _NEEDS and shutil.which(program) is None]
    if programs:
        raise EngineError(
            f"Ray's launcher needs {' and '.join(programs)} here, to reach the machines",
            fix=f"install {' '.join(programs)}",
        )
    if missing:
        raise EngineError(
            f"Ray needs packages for {provider} that are not installed here", fix=f"pip install {' '.join(missing)}"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what is above it is not there
        return False


def _no_cluster(path: Path, problem: str) -> BadSpec:
    return BadSpec([Violation(str(path), problem)], fix="stoker cluster render --out FILE writes one")
