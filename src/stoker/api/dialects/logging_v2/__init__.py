"""Cloud Logging's API v2, as far as clients read the logs of jobs with it (contract 3.6)."""
