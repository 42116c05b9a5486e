"""The graph that a trace records, and its inputs."""
