"""Campaigns that run for as long as they are given: `make chaos`."""
