"""Runs a frame until it returns or yields, and finds the handler of what is raised."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import Abort, Frame
from onegraph.capture.interp.defects import Defect, is_defect


def run(machine: Any, frame: Frame, thrown: BaseException | None = None) -> int:
    """Run `frame` from its `ip` to the next signal; `thrown` is raised there first.

    Raises what the frame does not handle. An `Abort` passes without looking at handlers, and leaves nothing that could
    run later.
    """
    following: int | None
    program = frame.program
    steps = pause = frame.steps
    ip = frame.ip
    frames = machine.frames
    if len(frames) >= machine.deepest:
        raise RecursionError("maximum recursion depth exceeded")
    frames.append(frame)
    machine.levels = max(machine.levels, len(frames))
    machine.on_frame_enter(frame)
    try:
        while True:
            try:
                if thrown is not None:
                    raise thrown
                while True:
                    frame.ip, frame.steps = ip, steps
                    if steps >= pause:
                        pause = machine.on_pause(frame)
                    handler, instr = program[ip]
                    following = handler(machine, frame, instr)
                    if machine.lost is not None:
                        raise machine.lost
                    steps += 1
                    if following is None:
                        ip += 1
                    elif following >= 0:
                        if following <= ip:
                            machine.on_turn(frame, following, steps)
                        ip = following
                    else:
                        return following
            except Abort as abort:
                abort.frames = abort.frames or tuple(frames)
                machine.abandon()
                raise
            except BaseException as raised:
                if is_defect(raised):
                    machine.abandon()
                    raise Defect from raised
                thrown = None
                steps += 1
                target = unwind(machine, frame, raised)
                if machine.lost is not None:
                    raise machine.lost from None
                if target is None:
                    raise
                ip = target
    finally:
        frame.steps = steps
        machine.on_frame_exit(frame)
        frames.pop()


def unwind(machine: Any, frame: Frame, raised: BaseException) -> int | None:
    """Prepare the stack for the handler of `raised` and give its place, or None if the frame has none."""
    machine.on_raise(frame, raised)
    handler = frame.bytecode.handler_at(frame.ip)
    if handler is None:
        frame.release()
        return None
    del frame.stack[handler.depth :]
    if handler.lasti:
        frame.stack.append(frame.ip)
    frame.stack.append(raised)
    return handler.target
