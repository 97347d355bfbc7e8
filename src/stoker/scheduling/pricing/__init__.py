"""What placers learn of the jobs that come, and what room on a node is worth to them. Pure."""
