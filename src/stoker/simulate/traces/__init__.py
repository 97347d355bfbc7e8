"""Formats of traces, one a file; see registry.py."""
