"""What a program is seen to do: its steps, the values that it reports, traces of a framework. Of no framework."""
