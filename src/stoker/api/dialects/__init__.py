"""The languages that the server speaks, one a file or folder; see registry.py."""
