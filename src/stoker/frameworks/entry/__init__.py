"""How we get into a program: what Python runs when it starts, what is called at the import of a framework, what a source says."""
