"""What is wrong with how a job trains, and what would help: rules over what its programs tell and what was sampled. Pure."""
