"""The machine: the whole of Python's meaning, one overridable method per primitive.

A subclass changes what a primitive does (a tracer records, guards, breaks); the handlers of the instructions stay.

    names        load_global store_global delete_global load_name store_name delete_name find_name
                 make_cell load_cell store_cell delete_cell import_name import_from import_star
    attributes   getattr setattr delattr; read_attribute write_attribute; generic_getattr type_getattr super_getattr
                 module_getattr method_getattr write_generic; class_value special_value wrapped own_value
                 read_descriptor read_natively write_descriptor write_natively
    operators    unary binary compare is_op contains truth length convert format native_instruction
    containers   getitem getitem_of_dict value_in_dict setitem delitem iter next send unpack unpack_ex set_add map_add
                 list_extend list_to_tuple set_update dict_update dict_merge star_arguments match_keys match_class
    calls        call call_native call_python bind call_type instantiate call_type_natively build_class super_arguments
                 make_function enter_context leave_context call_of_instruction
    exceptions   raise_exception raise_again exception_matches match_group handled_exception on_raise on_drop
    frames       make_frame run_frame make_generator on_frame_enter on_frame_exit on_turn
                 on_pause abandon
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Generator
from types import CellType, FunctionType
from typing import Any

from onegraph import _C
from onegraph.capture.bytecode import Bytecode, Instr, free_names
from onegraph.capture.bytecode.frame import Abort, Frame, Stopped, Unsupported
from onegraph.capture.bytecode.opcode import GENERATOR, YIELD, Handler
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.bytecode.single_instruction import run_native_instruction
from onegraph.capture.interp.attributes import Attributes
from onegraph.capture.interp.builders import Builders
from onegraph.capture.interp.calls import Calls
from onegraph.capture.interp.errors import Errors
from onegraph.capture.interp.lookup import ClassLookup
from onegraph.capture.interp.loop import run
from onegraph.capture.interp.names import Names
from onegraph.capture.interp.protocols import Protocols
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.native_members import TRACEBACK_OF

_ASYNCHRONOUS = 0x80 | 0x200  # coroutines and asynchronous generators
_HOST_FRAMES = 4  # Python frames of the interpreter for one interpreted frame


class Machine(Names, Attributes, Protocols, Builders, Calls, Errors):
    """Interprets Python functions. `frames` are the running frames, outermost first."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        #: How many frames there may be at a time.
        self.deepest = sys.maxsize
        #: How many there have been at a time.
        self.levels = 0
        self.type_lookup = ClassLookup()
        self._epoch = 0
        #: What has left the interpreter in a generator that was dropped: Python ignores what such a one raises.
        self.lost: Abort | None = None
        self._programs: dict[Bytecode, list[tuple[Handler, Instr]]] = {}

    # ---- frames ------------------------------------------------------------------------------------------------------

    def make_frame(
        self,
        bytecode: Bytecode,
        function: FunctionType,
        local_values: dict[str, Any],
        cells: dict[str, CellType] | None = None,
    ) -> Frame:
        """A frame of `function` before its first instruction. `cells` are its closure, if not the function's own."""
        if cells is None:
            closure = function.__closure__
            cells = dict(zip(free_names(bytecode.code), closure, strict=True)) if closure else {}
        program = self._programs.get(bytecode)
        if program is None:
            program = self._programs[bytecode] = [(OPCODES[instr.op].handler, instr) for instr in bytecode.instrs]
        return Frame(bytecode, function, local_values, cells, program)

    def run_frame(self, frame: Frame) -> Any:
        """Run a frame to its end and give what it returns; of a generator's frame, make the generator."""
        if self.frames:
            signal = run(self, frame)
        else:
            more = sys.getrecursionlimit() * (_HOST_FRAMES - 1)
            self.deepest = _C.frames_left()
            _C.deepen(more)
            try:
                signal = run(self, frame)
            finally:
                _C.deepen(-more)
        return self.make_generator(frame) if signal == GENERATOR else frame.result

    def on_frame_enter(self, frame: Frame) -> None:
        """A frame starts or goes on; it is the last of `frames`."""

    def on_frame_exit(self, frame: Frame) -> None:
        """A frame ends or is suspended; it is still the last of `frames`."""

    def on_turn(self, frame: Frame, head: int, steps: int) -> None:
        """A frame that has done so many instructions jumps back to `head`."""

    def on_pause(self, frame: Frame) -> int:
        """Before the first instruction of a frame that starts or goes on, and before the step that this gives."""
        if frame.steps == frame.stop_at:
            raise Stopped(frame)
        return frame.stop_at if frame.stop_at > frame.steps else sys.maxsize

    def native_instruction(self, instr: Instr, values: tuple[Any, ...]) -> Any:
        """What CPython's own instruction makes of these values."""
        return run_native_instruction(instr, values)

    # ---- generators --------------------------------------------------------------------------------------------------

    def make_generator(self, frame: Frame) -> Generator[Any, Any, Any]:
        """A real generator that runs the frame, so that native code can consume it."""
        if frame.bytecode.code.co_flags & _ASYNCHRONOUS:
            raise Unsupported(f"asynchronous code: {frame.bytecode.code.co_qualname}")
        made = self._drive(frame)
        named: Any = made
        named.__name__, named.__qualname__ = frame.function.__name__, frame.function.__qualname__
        frame.generator = weakref.ref(made)
        return made

    def _drive(self, frame: Frame) -> Generator[Any, Any, Any]:
        """The body of the real generator.

        What is thrown while the frame is in `yield from` goes to the inner iterator first, without running the frame.
        """
        epoch = self._epoch
        signal = run(self, frame)
        while signal == YIELD:
            thrown: BaseException | None = None
            try:
                frame.stack.append((yield frame.result))
            except BaseException as raised:  # whatever is thrown in belongs to the interpreted generator
                thrown = raised
            if self._epoch != epoch:
                thrown = None  # its traceback holds this frame
                return None
            if thrown is None:
                frame.ip += 1
                signal = run(self, frame)
                continue
            dropped = frame.generator() is None
            try:
                signal = self._throw(frame, thrown)
            except BaseException as raised:
                if dropped and self.on_drop(frame, raised):
                    return None
                raise
            finally:
                thrown = None  # its traceback holds this frame
            if dropped and signal == YIELD:
                self.on_drop(frame, RuntimeError("generator ignored GeneratorExit"))
                return None
        return frame.result

    def _throw(self, frame: Frame, thrown: BaseException) -> int:
        """Raise in a suspended frame; the next signal."""
        TRACEBACK_OF.set(thrown, None)
        following = frame.bytecode.instrs[frame.ip + 1]
        if following.op == "RESUME" and following.arg & 3 in (2, 3):
            done, value = self._delegate(frame.stack[-1], thrown)
            if done is None:
                frame.result = value
                return YIELD
            if done:
                send = next(i for i in reversed(frame.bytecode.instrs[: frame.ip]) if i.op == "SEND")
                frame.stack.append(value)
                assert send.target is not None
                frame.ip = send.target
                return run(self, frame)
            thrown, value = value, None
        frame.stack.append(None)  # in the place of what would be sent
        try:
            return run(self, frame, self.throw_into(frame, thrown))
        finally:
            del thrown  # its traceback holds this frame

    def _delegate(self, receiver: Any, thrown: BaseException) -> tuple[bool | None, Any]:
        """Throw into the iterator of `yield from`: (None, yielded), (True, returned) or (False, to raise instead)."""
        name = "close" if isinstance(thrown, GeneratorExit) else "throw"
        try:
            method = self.getattr(receiver, name)
        except AttributeError:
            return False, thrown
        except Exception:
            if name == "throw":
                raise
            return False, thrown  # CPython reports it as unraisable
        try:
            value = self.call(method, () if name == "close" else (thrown,), {})
        except StopIteration as stop:
            if name == "throw":
                return True, stop.value
            return False, stop
        except BaseException as raised:  # it is raised again, inside of the frame
            return False, raised
        return (False, thrown) if name == "close" else (None, value)

    def on_drop(self, frame: Frame, raised: BaseException) -> bool:
        """A generator that was dropped ends with an exception, which Python would only report; whether it is noted."""
        if isinstance(raised, Abort):
            self.lost = raised
        return self.lost is not None

    def abandon(self) -> None:
        """Forget the run: generators that are suspended now end without running their `finally` blocks."""
        self._epoch += 1
