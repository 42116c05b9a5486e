"""Policies: what the tracer does with the functions that it does not interpret.

A policy is one row: `@policy(function, ...)` in the file of its family. The row gets the tracer, the arguments and
the keywords, and returns the result of the call.
"""
