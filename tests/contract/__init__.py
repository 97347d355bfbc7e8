"""One test class per Protocol; a new member of an open set subclasses it in a few lines."""
