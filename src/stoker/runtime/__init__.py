"""What runs beside the program in every replica. Standard library only, Python 3.9 syntax, shipped as one zipapp.

The road of a replica, in `supervise.py`: fetch → environment → join → run the program → drain the log → report.
"""
