"""Functions of Python and its library."""
