"""What a machine and its GPUs do, every second: by a process of its own beside the server, whom no driver can hold up."""
