"""The ways by which alerts reach somebody: an open set."""
