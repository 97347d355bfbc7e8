"""Say where this program runs, and with which arguments."""

import os
import platform
import sys

rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")

print(f"hello from replica {rank} of {world_size}")
print(f"machine    {platform.node()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
print(f"directory  {os.getcwd()}")
print(f"devices    {os.environ.get('STOKER_DEVICES') or 'none'}")
print(f"arguments  {sys.argv[1:]}")
