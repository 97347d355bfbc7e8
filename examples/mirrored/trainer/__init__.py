"""One machine, several GPUs, one model: MirroredStrategy."""
