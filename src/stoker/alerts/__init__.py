"""Alerts: what happened is found in the story and on the site, and brought to those who asked for it."""
