"""Capture: from a Python frame to a graph, its guards and the code that surrounds it."""
