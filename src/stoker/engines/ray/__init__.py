"""A Ray cluster as an engine.

engine.py    the Engine, in the server: knows no Ray, asks the bridge
bridge.py    a process beside the server, spoken to in lines of JSON, and started anew when it ends
entrance.py  whether the cluster can be entered, asked before
driver.py    what runs in that process: Ray's driver. Ray ends the process of a driver that has lost its cluster
replica.py   what runs on the nodes: one actor a replica, which starts the supervisor and tells how it ended
health.py    how soon Ray notices that a node is gone
spares.py    a worker of Ray's ready on every node, which the next actor takes
machines.py  orders of machines from Ray's autoscaler, and processes.py machines that are processes, to try them
clusters/    Ray's cluster files for clouds; launcher.py brings them up and down
inventory.py Ray's nodes as Stoker's
"""
