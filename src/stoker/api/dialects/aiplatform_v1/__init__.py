"""AI Platform Training's API, v1. `messages.py` is its vocabulary, `jobs.py` the translation, `routes.py` the door."""
