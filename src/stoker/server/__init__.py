"""The process of a server: takes the lead, listens, serves, and ends."""
