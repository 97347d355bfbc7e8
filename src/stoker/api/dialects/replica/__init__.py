"""What replicas say and ask: routes.py, that they live, what they print, how they end; folders.py, the files of their jobs."""
