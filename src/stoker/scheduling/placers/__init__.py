"""Ways to place a gang, one a file; see registry.py."""
