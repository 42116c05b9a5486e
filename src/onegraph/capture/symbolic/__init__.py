"""Sizes and numbers that change: symbols, and the conditions on them."""
