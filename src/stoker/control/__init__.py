"""Makes it so: takes the users' wishes, and drives the loop of observe, decide and enact."""
