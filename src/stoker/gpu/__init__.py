"""Reading GPUs: which there are."""
