"""Measures Stoker against its budgets: `python -m benchmarks [NAME…]`. See README.md."""
