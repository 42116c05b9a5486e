"""The code that replaces a frame: it calls the graph, and makes the results and the side effects."""
