"""From loops to Triton's language: kernels for GPUs, as source text that a person can read."""
