"""This machine as an engine: what starts replicas, keeps them apart, finds them again and clears up after them."""
