"""Proves that a cluster is wired: every replica finds every other one."""
