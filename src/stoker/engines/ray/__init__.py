"""A Ray cluster as an engine.

engine.py    the Engine, in the server: knows no Ray, asks the bridge
bridge.py    a process beside the server, spoken to in lines of JSON, and started anew when it ends
driver.py    what runs in that process: Ray's driver. Ray ends the process of a driver that has lost its cluster
replica.py   what runs on the nodes: one actor a replica, which starts the supervisor and tells how it ended
spares.py    a worker of Ray's ready on every node, which the next actor takes
inventory.py Ray's nodes as Stoker's
"""
