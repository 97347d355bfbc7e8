"""JAX: processes that meet before the program computes."""
