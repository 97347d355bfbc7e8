"""Faults, real and simulated, and what must hold through all of them."""
