"""A program among others that train the same model: who it is, what all agree on, what each has of its own. Of no framework."""
