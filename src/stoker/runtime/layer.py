"""A Python environment on top of another, for a container that installs packages when it starts.

What stands in for its image belongs to everybody: such a container gets a place of its own to install into, `--user` or not,
and sees the packages below.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import Dict, List

from .errors import CannotStart

_PIP = re.compile(r"""(?:^|[\s/;&|(`"']|-m)pip[0-9.]*(?:\s|$)""")  # pip, pip3.11, /bin/pip, -m pip; not pipeline.py
_WHERE_PACKAGES_ARE = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"


def installs_packages(command: List[str]) -> bool:
    """Whether a command installs packages, as far as can be told: it calls pip."""
    return any(_PIP.search(word) for word in command)


def make_layer(python: str, folder: str) -> Dict[str, str]:
    """Make the environment in `folder`. Returns the variables by which a program uses it. Raises CannotStart."""
    try:
        _run([python, "-m", "venv", "--without-pip", "--system-site-packages", folder])
        below = _run([python, "-c", _WHERE_PACKAGES_ARE])
        (own,) = glob.glob(os.path.join(folder, "lib", "python*", "site-packages"))
        with open(os.path.join(own, "below.pth"), "w", encoding="utf-8") as file:
            file.write(below)
        bin_folder = os.path.join(folder, "bin")
        for name in ("pip", "pip3"):
            path = os.path.join(bin_folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{bin_folder}/python" -m pip "$@"\n')
            os.chmod(path, 0o755)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        problem = getattr(error, "stderr", "") or str(error)
        raise CannotStart(f"no environment can be made on top of {python}: {problem.strip()}") from error
    return {"PATH": bin_folder, "PYTHONUSERBASE": os.path.join(folder, "user")}


def _run(command: List[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
