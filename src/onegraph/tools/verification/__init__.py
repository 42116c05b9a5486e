"""What `onegraph.verify` is made of: the state of a call, its runs, their comparison, and the search for a fault."""
