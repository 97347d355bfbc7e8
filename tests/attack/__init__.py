"""Attacks on a real server, by what jobs and users can do: `make attack`."""
