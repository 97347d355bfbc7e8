"""Handwritten digits, trained by every replica of the job together."""
