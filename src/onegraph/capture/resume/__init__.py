"""Going on behind a graph break: what is live there, and the function that runs the rest."""
