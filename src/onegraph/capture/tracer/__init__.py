"""Interpreting a frame on fake tensors: the machine with all of its parts."""
