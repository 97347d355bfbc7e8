"""What a checkpoint is made of, by kinds: each is saved in the format of its framework."""
