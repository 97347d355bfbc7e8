"""The Python client: talk to a server, start the embedded one, pack programs, read config.yaml."""
