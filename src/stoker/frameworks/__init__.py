"""What makes a training program distributed and truthful without a change to it: runs in the program's own interpreter.

Standard library only, until the program itself has imported a framework. docs/frameworks.md tells what works.
"""
