"""The same control loop in virtual time: traces in, metrics and reports out."""
