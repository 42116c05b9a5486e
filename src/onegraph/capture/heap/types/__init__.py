"""The rules of Python's own types, see `onegraph.capture.heap.type_rules`."""
