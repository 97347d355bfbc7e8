"""Make a labelled set of photos from Debian's `tuxpaint-stamps-default`: one folder for each kind of thing.

python photos.py            fetches the package (161 MB) with apt-get, and unpacks it; nothing is installed
python photos.py FOLDER     takes the stamps from FOLDER, such as /usr/share/tuxpaint/stamps
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

KINDS = ("animals", "food", "plants", "town", "vehicles")
SIZE = 96  # pixels of a side


def main() -> None:
    if len(sys.argv) > 1:
        make(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-qq", "tuxpaint-stamps-default"], cwd=folder, check=True)
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg", "-x", package.name, "."], cwd=folder, check=True)
        make(Path(folder, "usr/share/tuxpaint/stamps"))


def make(stamps: Path) -> None:
    """Photos only: what is drawn lies in folders called `cartoon`."""
    for kind in KINDS:
        target = Path("photos", kind)
        target.mkdir(parents=True, exist_ok=True)
        stamped = sorted(path for path in (stamps / kind).rglob("*.png") if "cartoon" not in path.parts)
        for number, path in enumerate(stamped):
            photo = Image.open(path).convert("RGBA")
            photo.thumbnail((SIZE, SIZE))
            square = Image.new("RGB", (SIZE, SIZE), "white")
            square.paste(photo, ((SIZE - photo.width) // 2, (SIZE - photo.height) // 2), photo)
            square.save(target / f"{number:03d}.jpg")
        print(f"{len(stamped)} {kind}")


if __name__ == "__main__":
    main()
