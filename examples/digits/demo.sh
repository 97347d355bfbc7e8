#!/bin/sh
# The main job: TensorFlow trains a digit classifier as a cluster of two replicas, on this machine.
# Run by `make demo`; needs `stoker` on the PATH. Takes about half a minute.
set -eu

job="digits_$(date +%Y%m%d_%H%M%S)"
job_dir="gs://stoker-demo/$job"

stoker jobs submit training "$job" \
  --package-path examples/digits/trainer --module-name trainer.task \
  --config examples/digits/config.yaml --job-dir "$job_dir" --stream-logs \
  -- --epochs "${EPOCHS:-12}"

stoker jobs describe "$job" --json | python examples/digits/show_result.py
