"""What a program inherits: the machine's variables less Stoker's own, with its packages, and what was asked for."""

from __future__ import annotations

import os
from typing import Any, Dict

from stoker.beat_files import VARIABLE as BEAT_FILE

from . import own_archive
from .folder import Folder
from .layer import installs_packages, make_layer
from .sandbox import Sandbox

_OUR_PREFIXES = ("STOKER_", "CLOUD_ML_", "AIP_")  # set where they concern a replica; the server's own never reach one
_OUR_NAMES = frozenset(
    "TF_CONFIG CLUSTER_SPEC MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK"
    " JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES JAX_PROCESS_ID".split()
)


def variables_of_program(
    request: Dict[str, Any], folder: Folder, sandbox: Sandbox, layer_folder: str, site: str
) -> Dict[str, str]:
    """All but those that tell of the cluster. `site`: the folder of its packages. `layer_folder`: where it installs its own."""
    kept = [k for k in os.environ if not k.startswith(_OUR_PREFIXES) and k not in _OUR_NAMES]
    variables = {k: os.environ[k] for k in kept if sandbox.passes(k)}
    bin_folder = os.path.dirname(request["python"])
    variables["PATH"] = os.pathsep.join([bin_folder, variables.get("PATH", os.defpath)])
    if site:  # the commands of its packages
        variables["PATH"] = os.pathsep.join([os.path.join(site, "bin"), variables["PATH"]])
    if request["is_container"] and installs_packages(request["command"]):
        layer = make_layer(request["python"], layer_folder)
        variables.update(layer, PATH=os.pathsep.join([layer["PATH"], variables["PATH"]]))
    variables["PYTHONUNBUFFERED"] = "1"
    variables[BEAT_FILE] = folder.beat_file
    if site:
        variables["PYTHONPATH"] = os.pathsep.join(p for p in (site, variables.get("PYTHONPATH", "")) if p)
    variables.update(sandbox.variables())
    variables.update(request["env"])
    if "STOKER_DISTRIBUTE" in variables:
        variables.setdefault("PYTHONHASHSEED", "0")  # what a program keeps in sets has one order in all replicas
    if own_archive.HOOKS:
        paths = (own_archive.HOOKS, variables.get("PYTHONPATH", ""))
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return variables
