"""The interpreter: executes bytecode in normal form over real objects, with plain Python's meaning.

`machine.Machine` is the whole of Python as overridable methods, `loop` runs a frame, `op_*` hold one handler per
instruction. Results, exceptions with their chains and tracebacks, output and the order of effects are CPython's. Else:

- There are no native frame objects of interpreted functions. `sys._getframe` gives a view without behaviour, tracebacks
  have frames of the right name and line but without locals and `f_back`, debuggers and `sys.settrace` see nothing, and
  a generator's `gi_code`, `gi_frame` and `gi_yieldfrom` are those of the generator that drives it.
- Asynchronous functions raise `Unsupported`.
- One interpreted call takes a few native ones, so recursion may end earlier, and `sys.setrecursionlimit` means native
  frames.
- Classes live as long as the machine that has seen them, and arguments as long as the call that got them.
- Python code that native code calls (a sort key, an element's `__eq__`) runs natively, unless a subclass sees to it.
"""
