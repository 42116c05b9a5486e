"""The data that stages hand to each other: types, index expressions, scalar operations, loop programs, plans."""
