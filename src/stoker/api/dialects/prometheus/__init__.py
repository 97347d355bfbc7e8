"""What Prometheus scrapes: the GPUs by DCGM's names, and the site by ours. Source: Prometheus' text format, version 0.0.4."""
