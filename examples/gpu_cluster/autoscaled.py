"""The job of config.yaml on machines that are not there yet. Run by `make demo-cluster`; takes two or three minutes.

It starts Ray's head with its autoscaler, whose machines are processes of this machine, and a Stoker server beside it. Then it
submits the job, tells how the 13 machines come, how TensorFlow trains on them, what that costs, and how they go. Nothing is left.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from stoker.client.client import Client
from stoker.engines.ray.clusters.node_types import node_type
from stoker.engines.ray.processes import HEAD, cluster_file, end_tree
from stoker.site.site_file import read_file

HERE = Path(__file__).parent
ADDRESS = "127.0.0.2:6389"
STOKER = [sys.executable, "-m", "stoker.cli.main"]
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
BEGAN = time.monotonic()


def main() -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoker-", dir="/tmp")))
        site = read_file(HERE / "site.toml")
        types = {name: node_type(pool, pool.zone, {}) for name, pool in site.pools.items()}
        (folder / "cluster.json").write_text(
            json.dumps(cluster_file(folder / "machines", ADDRESS, types, site.idle_seconds))
        )
        start_head(folder, stack)
        os.environ |= {"STOKER_HOME": str(folder / "home"), "STOKER_SITE": str(HERE / "site.toml")}
        os.environ |= {"STOKER_ENGINE": "ray", "STOKER_ADDRESS": ADDRESS}
        subprocess.run([*STOKER, "up", "--port", "0"], check=True)
        stack.callback(subprocess.run, [*STOKER, "down", "--cancel-jobs"], check=False)
        found = json.loads((folder / "home/server.json").read_text())
        client = Client(found["url"], (folder / "home/token").read_text())
        return follow(client, folder)


def start_head(folder: Path, stack: ExitStack) -> None:
    """Start Ray's head. At the end it goes, and the machines with it."""
    words = [
        *("--head", f"--node-ip-address={ADDRESS.partition(':')[0]}", f"--port={ADDRESS.partition(':')[2]}"),
        *("--num-cpus=0", "--num-gpus=0", "--include-dashboard=false", "--disable-usage-stats", "--block"),
        *(f"--temp-dir={folder}/head", f"--autoscaling-config={folder}/cluster.json"),
    ]
    environment = {
        **os.environ,
        "RAY_CLOUD_INSTANCE_ID": HEAD,
        "RAY_NODE_TYPE_NAME": "ray.head.default",
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    }
    log = folder / "head.log"
    with open(log, "wb") as output:
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    stack.callback(end_all, head, folder)
    while b"Ray runtime started" not in log.read_bytes():
        if head.poll() is not None:
            raise SystemExit(f"Ray's head did not start:\n{log.read_text()}")
        time.sleep(0.2)
    say("Ray's head is up; it has an autoscaler, and no machine")


def end_all(head: "subprocess.Popen[bytes]", folder: Path) -> None:
    end_tree(head.pid, grace_seconds=0)
    head.wait()
    for path in folder.glob("machines/*.json"):
        pid = json.loads(path.read_text()).get("pid")
        if pid is not None:
            end_tree(pid, grace_seconds=0)


def follow(client: Client, folder: Path) -> int:
    """Submit, and tell what happens until the machines have gone."""
    words = [
        *("--config", str(HERE / "config.yaml"), "--region", "us-central1", "--job-dir", str(folder / "job")),
        *("--package-path", str(HERE.parent / "parameter_server/trainer"), "--module-name", "trainer.task"),
        *("--", "--epochs", "2"),
    ]
    subprocess.run([*STOKER, "jobs", "submit", "training", "autoscaled", *words], check=True)
    told = ""
    while True:
        details = client.details("local", "autoscaled")
        now = f"{details['state']}: {details['reason']['text']}" if details["reason"] else details["state"]
        if now != told:
            say(now)
            told = now
        if details["state"] in ENDED:
            break
        time.sleep(0.5)
    for event in client.stream("local", "autoscaled", follow=False):
        if event["kind"] == "log" and event["replica"] == "chief-0":
            print(f"  chief-0   {event['text']}")
    subprocess.run([*STOKER, "costs", "--by", "job"], check=True)
    while machines := Counter(node["node_pool"] for node in client.nodes()):
        now = "still there: " + ", ".join(f"{count} × {pool}" for pool, count in sorted(machines.items()))
        if now != told:
            say(now)
            told = now
        time.sleep(0.5)
    say("all machines are gone")
    return 0 if details["state"] == "SUCCEEDED" else 1


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
