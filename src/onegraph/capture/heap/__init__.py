"""The tracer's view of the program's objects: shadows of those from outside, what was read of them and written."""
