"""Checkpoints: of what, when, how they are written and read, and the loops that go on from them."""
