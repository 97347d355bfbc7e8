"""`python runtime.pyz FOLDER`: supervise the replica whose folder this is."""

import sys

from stoker.runtime.supervise import main

sys.exit(main(sys.argv[1]))
