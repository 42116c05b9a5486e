"""The interpreter: executes bytecode in normal form over real objects, with plain Python's meaning.

`machine.Machine` is the whole of Python as overridable methods, `loop` runs a frame, `op_*` hold one handler per
instruction.
"""
