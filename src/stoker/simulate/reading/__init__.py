"""From a file to a trace: opening it, its rows and fields, everything wrong with it at once, and what must hold at the end."""
