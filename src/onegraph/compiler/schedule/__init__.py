"""Passes over loop programs: what is computed together, along which axes, in which order, how wide."""
