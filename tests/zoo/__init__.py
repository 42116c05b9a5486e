"""Many kinds of real models, small and with random weights: what a capture must manage as one graph each."""
