"""Vertex AI v1: custom jobs (contract, section 7)."""
