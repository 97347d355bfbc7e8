"""The objects of buckets: files with a generation, hashes, and what was said of them, as Cloud Storage has them."""
