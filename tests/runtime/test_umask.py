"""Files of a process whose mask is closed: its user's alone, but for those that are made open on purpose."""

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
umask.make_open_folder("above/open-folder")
umask.make_open_file("open")
umask.make_open_file("closed")
os.symlink("closed", "link")
umask.make_open_file("link")
for name in ("closed", "closed-folder", "above", "above/open-folder", "open"):
    print(name, oct(stat.S_IMODE(os.stat(name).st_mode)))
"""


def test_what_is_made_is_closed_unless_it_is_made_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert dict(line.split() for line in told.splitlines()) == {
        "closed": "0o600",
        "closed-folder": "0o700",
        "above": "0o750",
        "above/open-folder": "0o750",
        "open": "0o640",
    }
