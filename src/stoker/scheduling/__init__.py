"""Who runs next, where, and what follows from what was seen. Pure: a World goes in, Changes and Orders come out."""
