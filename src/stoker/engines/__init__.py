"""Where replicas run. Each engine starts, watches and fences processes by attempt id; none decides anything."""
