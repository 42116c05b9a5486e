"""Facts about Python objects, found without running the program's code."""
