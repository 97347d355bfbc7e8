"""Ways to read GPUs, one a file; see registry.py."""
