"""What hardware exists, what may be asked for, where it is and what it costs: facts and rules, read from tables."""
