"""Stoker under faults: a simulation in virtual time that repeats itself, planted bugs that it must find, and real processes.

`python -m tests.chaos` runs it all and prints a table; `make test` runs short forms of it.
"""
