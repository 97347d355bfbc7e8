"""Whether a Ray cluster can be entered from here, asked before Ray's own driver tries.

That one waits long for a head that is not there or wants another token, says the same of both, and ends its process where the
machine has no part of Ray. Nor does it say whether the cluster asks anybody for a token: one with a token is let in anyway.
"""

from __future__ import annotations

import ipaddress
import socket

import grpc
import ray
from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from ray.exceptions import AuthenticationError

ANSWER_SECONDS = 5.0

_NOBODY = (
    "nobody answers at {address} as Ray's head does ({said}); start it with: ray start --head, or correct the address"
)
_TOKEN = (
    "Ray's head at {address} does not take our token; put the same one into ~/.ray/auth_token of each machine, or into"
    " RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token in the environment of Stoker"
)
_OPEN = (
    "the Ray cluster at {address} lets everybody in its network run code there; start Ray with RAY_AUTH_MODE=token in the"
    " environment of its nodes and of Stoker (ray get-auth-token --generate)"
)
_NO_PART = (
    "no part of the Ray cluster at {address} runs on this machine, as the server needs it; start one without work of its own:"
    " ray start --address={address} --num-cpus=0 --num-gpus=0"
)
_ANY_CALL = "/ray.rpc.NodeInfoGcsService/GetClusterId"


def why_not(address: str) -> str:
    """Why there is no way into the cluster, and what to do; empty: there is one. `address`: of Ray's head, host:port."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
            peer = connection.getpeername()[0]
    except (OSError, ValueError) as error:
        return _NOBODY.format(address=address, said=error)
    if not ipaddress.ip_address(peer).is_loopback and is_open(address):
        return _OPEN.format(address=address)
    try:
        ensure_token_if_auth_enabled(create_token_if_missing=False)
        nodes = ray._raylet.GcsClient(address=address).get_all_node_info()
    except AuthenticationError:
        return _TOKEN.format(address=address)
    except Exception as error:
        return said_by(address, error)
    if not any(is_here(node.raylet_socket_name) for node in nodes.values() if node.state == GcsNodeInfo.ALIVE):
        return _NO_PART.format(address=address)
    return ""


def said_by(address: str, error: Exception) -> str:
    """What Ray says, and what to do."""
    said = first_line(error)
    if "ersion" in said:  # and the versions are in the lines after it
        return f"{' '.join(str(error).split())} Let Ray and Python be of the same versions here and there"
    return _NOBODY.format(address=address, said=said)


def first_line(error: Exception) -> str:
    """What an error says, without the rest of it."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_here(raylet_socket: str) -> bool:
    """Whether the part of Ray that listens on this socket is on this machine. The file alone may be left of an earlier one."""
    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(ANSWER_SECONDS)
        try:
            ours.connect(raylet_socket)
        except OSError:
            return False
    return True


def is_open(address: str) -> bool:
    """Whether Ray's head answers somebody who has no token."""
    with grpc.insecure_channel(address) as channel:
        try:
            channel.unary_unary(_ANY_CALL)(b"", timeout=ANSWER_SECONDS)
        except grpc.RpcError:
            return False
    return True
