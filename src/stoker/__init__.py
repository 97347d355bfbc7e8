"""Stoker keeps the GPUs fed: a self-hosted training platform."""

__version__ = "0.1.0"
