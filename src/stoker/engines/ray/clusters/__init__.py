"""Ray's own cluster files from the pools of a site file: one module for each cloud. Pure, and without Ray."""
