"""The nouns: what a job, an attempt, a replica and a node are, and how they may change. Pure; imports nothing above it."""
