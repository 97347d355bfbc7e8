"""What is told of jobs beside their states: how they train, what they cost, when their turn comes. Nothing here decides."""
