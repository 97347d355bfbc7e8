"""What goes in and out: requests are pydantic models, which check; answers are TypedDicts, which mypy checks."""
