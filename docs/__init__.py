"""The documentation, and draw.py, which writes the pages that follow from the code."""
