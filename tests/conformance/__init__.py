"""The conformance cases of the v1 contract, and a runner that asks them of a server over HTTP: `python -m tests.conformance`."""
