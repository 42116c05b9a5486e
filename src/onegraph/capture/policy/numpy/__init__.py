"""What the tracer does with NumPy's functions, arrays and scalars."""
