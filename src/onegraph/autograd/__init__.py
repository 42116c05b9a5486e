"""From a captured graph to a functional aten graph and its calling convention; to two of them, where it is trained."""
