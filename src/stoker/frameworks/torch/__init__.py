"""PyTorch: loops for one device on several, processes for GPUs, steps."""
