"""A plain tf_keras script for one device, which parameter servers and workers train."""
