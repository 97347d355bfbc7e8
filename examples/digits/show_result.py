"""Reads `stoker jobs describe JOB --json` and tells how the training went: accuracy, duration, where the model is, what next.

Ends with 1 if the accuracy is not above 0.9: the demo would then have shown nothing.
"""

import json
import sys
from pathlib import Path

NEEDED_ACCURACY = 0.9


def main() -> int:
    """Tell it."""
    job = json.load(sys.stdin)
    folder = Path(job["job_dir_path"])
    metrics = json.loads((folder / "metrics.json").read_text())
    accuracy, replicas = metrics["accuracy"], metrics["replicas"]
    print()
    print(f"accuracy     {accuracy:.4f} on handwritten digits that the model had not seen")
    print(f"duration     {job['ended_at'] - job['started_at']:.1f} s on {replicas} replicas")
    print(f"model        {folder / 'model'}")
    print(f"checkpoints  {folder / 'checkpoints'}")
    print()
    print("What to try next (with .venv/bin on your PATH):")
    print(f"  stoker logs {job['name']}                      what both replicas printed")
    print("  stoker run -- python examples/hello/hello.py   a plain script, with no packaging")
    print("  stoker rehearse --config examples/gpu_cluster/config.yaml --package-path examples/gpu_cluster/trainer \\")
    print("      --module-name trainer.task                 a 13-machine GPU cluster, rehearsed here")
    print("  stoker down                                    end the server that this demo has started")
    if accuracy <= NEEDED_ACCURACY:
        print(f"the accuracy is not above {NEEDED_ACCURACY}: something is wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
