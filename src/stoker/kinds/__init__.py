"""What a job may be: each kind turns a JobSpec into a Launch. Pure."""
