"""HTTP in and out. Nothing is decided here: parse, one call, show."""
