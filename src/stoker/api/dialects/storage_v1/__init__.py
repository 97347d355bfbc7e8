"""The JSON API of Cloud Storage, as far as its clients need it for buckets and objects."""
