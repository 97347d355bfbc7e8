"""Asynchronous training: a chief, workers, parameter servers and, if wanted, an evaluator."""
