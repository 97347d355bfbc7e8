"""Stoker's own API, `/stoker/v1`: what the command line, the SDK and the console need beyond AI Platform's. One noun a file."""
