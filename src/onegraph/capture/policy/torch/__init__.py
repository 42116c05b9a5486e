"""Functions of torch."""
