"""Orders of the queue, one a file; see registry.py."""
