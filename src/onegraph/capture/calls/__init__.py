"""What the tracer does with a native call: the table of them, which handlers fill."""
