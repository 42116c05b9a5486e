"""From a scheduled loop program to an execution plan: lifetimes, reuse of memory, order of steps."""
