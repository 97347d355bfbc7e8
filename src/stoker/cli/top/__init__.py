"""`stoker top`: what a site does, on a full screen or once. Imported by that verb alone: Textual takes a while to load."""
