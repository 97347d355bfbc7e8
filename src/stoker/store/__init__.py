"""What is written down: the state, the story of how it came about, the logs, and the files of jobs."""
