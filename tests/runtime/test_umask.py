"""Files of a process whose mask is closed are its user's alone; what is made open on purpose has the mask of before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, stat, sys
from stoker.runtime import umask
os.umask(0o027)
assert umask.mask() == 0o022 and umask.close_files() == 0o027 and umask.close_files() == 0o027
os.chdir(sys.argv[1])
open("closed", "w").close()
os.mkdir("closed-folder")
assert umask.opened(0o777) == 0o750 and umask.opened(0o666) == 0o640
for name in ("closed", "closed-folder"):
    print(name, oct(stat.S_IMODE(os.stat(name).st_mode)))
"""


def test_what_is_made_is_closed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert dict(line.split() for line in told.splitlines()) == {
        "closed": "0o600",
        "closed-folder": "0o700",
    }
