"""Captures on disk: what a capture is as data, what it depends on, and how another process comes to it again."""
