"""Stoker keeps the GPUs fed: a self-hosted training platform.

    import stoker

    job = stoker.submit("train.py", args=["--epochs", 3], gpus=1)
    for line in job.logs(follow=True):
        print(line)

Within a job, a training loop of one's own says by `stoker.step(loss=loss)` that a step is over, and goes on where it was by
`stoker.checkpoint.State`.

The names of the SDK are imported when they are asked for, so that `import stoker` costs nothing; `__init__.pyi` tells them
to type checkers and editors. docs/sdk.md tells more.
"""

__version__ = "0.1.0"

_SDK = {
    "submit": "stoker.client.submit",
    "get": "stoker.client.jobs",
    "jobs": "stoker.client.jobs",
    "connect": "stoker.client.connection",
    "Job": "stoker.client.jobs",
    "JobFailed": "stoker.client.job_failed",
    "LogLine": "stoker.client.answers",
    "Metrics": "stoker.client.answers",
    "Explanation": "stoker.client.answers",
    "Diagnosis": "stoker.client.answers",
    "Artifact": "stoker.client.answers",
    "JobOptions": "stoker.client.job_options",
    "Progress": "stoker.client.uploads",
    "StokerError": "stoker.core.errors",
    "checkpoint": "stoker.checkpoint",
    "step": "stoker.frameworks.metrics.meter",
    "report": "stoker.frameworks.metrics.meter",
    "reading": "stoker.frameworks.metrics.meter",
}

__all__ = ["__version__", *_SDK]


def __getattr__(name: str) -> object:
    if name not in _SDK:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_SDK[name])
    found = globals()[name] = getattr(module, name, module)  # a module stands for itself
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_SDK})
