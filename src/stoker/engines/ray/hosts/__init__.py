"""Machines of one's own, made nodes by SSH: `stoker nodes add ada@box2`.

book.py      which there are; in the home, as hosts.json
head.py      Ray's head on the server's machine, kept up by the server
ssh.py       OpenSSH, and what it says in words
survey.py    what a machine is like, and what is wrong with it
packages.py  what its environment is to hold: the versions of this one
setup.py     the scripts that make a machine a node, keep it one, and end that
adding.py    add, check, upgrade, remove
watch.py     the server's look after them
"""
