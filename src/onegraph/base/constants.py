"""Numbers of mathematics, as they are: a program may give those of `math` another value before code is compiled."""

pi = 3.141592653589793
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
