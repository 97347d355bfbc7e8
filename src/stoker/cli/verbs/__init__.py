"""The verbs, one a file; main.py lists them."""
