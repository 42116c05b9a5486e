"""Globals, evaluated code, threads, context variables, locks, imports and the like."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import os
import queue
import sys
import threading
import time
import types
import warnings

import torch

from tests.capture.twins import Cases

case = Cases()
NUMBER = 1
GONE = 5
FLAG = None
ITEMS = []
LOCK = threading.Lock()
RLOCK = threading.RLock()
LOCAL = threading.local()
LOCAL.value = 3
VARIABLE = contextvars.ContextVar("VARIABLE", default=2)
EVENT = threading.Event()
QUEUE = queue.Queue()
STREAM = io.StringIO()
MODULE = types.ModuleType("made")
MODULE.value = 4
LOGGER = logging.Logger("twin")
LOGGER.addHandler(logging.StreamHandler(STREAM))


def helper(x):
    return x + NUMBER


HELPER = helper


class Singleton:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.count = 0
        return cls.instance


def set_number(value):
    global NUMBER
    NUMBER = value


def set_helper():
    global helper

    def helper(x):
        return x * 100


def set_helper_code():
    HELPER.__code__ = (lambda x: x - 7).__code__


@case
def global_write(x):
    global NUMBER
    NUMBER += 1
    return x + NUMBER


@case
def global_created(x):
    global CREATED
    CREATED = x * 2
    return CREATED


@case
def global_deleted(x):
    global GONE
    GONE = x
    del GONE
    try:
        return GONE
    except NameError as error:
        GONE = 6
        return str(error)


@case(lambda: (torch.rand(2),), lambda: set_number(7), lambda: set_number(2.5))
def global_written_by_callee(x):
    set_number(NUMBER + 1)
    return helper(x)


@case(lambda: (torch.rand(2),), set_helper, set_helper_code)
def global_function_replaced(x):
    return helper(x), HELPER(x)


@case
def globals_dictionary(x):
    globals()["ADDED"] = 5
    return x + ADDED  # noqa: F821


@case
def locals_dictionary(x):
    y = 2
    return sorted(locals()), x + y


@case
def evaluated(x):
    y = 3
    return eval("x + y"), eval("NUMBER * 2")


@case
def executed(x):
    space = {"x": x}
    exec("y = x * 2", space)
    exec("global NUMBER; NUMBER = 9")
    return space["y"], NUMBER


@case
def compiled_code(x):
    code = compile("a + 1", "<text>", "eval")
    return eval(code, {"a": x})


@case
def lock_held(x):
    with LOCK:
        y = x + 1
    RLOCK.acquire()
    RLOCK.release()
    return y, LOCK.locked()


@case
def lock_made_inside(x):
    lock = threading.Lock()
    with lock:
        return x + 1


@case(lambda: (torch.rand(2),), lambda: setattr(LOCAL, "value", 9))
def thread_local(x):
    return x * LOCAL.value, getattr(LOCAL, "other", None)


@case
def thread_local_written(x):
    LOCAL.value += 1
    return x * LOCAL.value


@case(lambda: (torch.rand(2),), lambda: VARIABLE.set(9))
def context_variable(x):
    return x * VARIABLE.get()


@case
def context_variable_set(x):
    token = VARIABLE.set(5)
    y = x * VARIABLE.get()
    VARIABLE.reset(token)
    return y


@case
def context_variable_left_set(x):
    VARIABLE.set(VARIABLE.get() + 1)
    return x * VARIABLE.get()


@case(lambda: (torch.rand(2),), lambda: EVENT.set())
def event(x):
    return x + 1 if EVENT.is_set() else x - 1


@case
def queues(x):
    QUEUE.put(x)
    return QUEUE.qsize(), QUEUE.get_nowait() + 1


@case
def streams(x):
    STREAM.write("text")
    print("more", file=STREAM)
    inner = io.StringIO()
    inner.write("in")
    return STREAM.getvalue(), inner.getvalue(), x


@case(lambda: (torch.rand(2),), lambda: setattr(MODULE, "value", 9))
def module_attribute(x):
    return x * MODULE.value


@case
def module_attribute_written(x):
    MODULE.value += 1
    MODULE.fresh = x
    return x * MODULE.value


@case
def threads(x):
    out = []

    def work(n):
        out.append(x + n)
        ITEMS.append(n)

    started = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in started:
        thread.start()
        thread.join()
    return out


@case
def coroutines(x):
    async def inner(n):
        await asyncio.sleep(0)
        return x + n

    async def outer():
        return await inner(1), await asyncio.gather(inner(2), inner(3))

    return asyncio.run(outer())


@case
def coroutine_by_hand(x):
    async def work():
        return x + 1

    try:
        work().send(None)
    except StopIteration as stop:
        return stop.value


@case
def imports(x):
    import math
    from collections import OrderedDict as Renamed

    import torch.nn.functional as F

    return F.relu(x) * math.pi, Renamed(a=1)


@case
def missing_import(x):
    try:
        import no_such_module  # noqa: F401
    except ImportError as error:
        return str(error), x


@case
def warning_given(x):
    warnings.warn("careful", UserWarning, stacklevel=2)
    warnings.warn("again", stacklevel=1)
    return x + 1


@case
def warning_caught(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("inner", stacklevel=1)
    return len(seen), x


@case
def logging_calls(x):
    LOGGER.warning("shape %s", tuple(x.shape))
    LOGGER.debug("hidden")
    return x + 1, STREAM.getvalue()


@case(lambda: (torch.rand(2),), lambda: os.environ.__setitem__("TWIN", "2"), lambda: os.environ.pop("TWIN", None))
def environment_variable(x):
    return x * int(os.environ.get("TWIN", "1")), os.getenv("TWIN")


@case
def environment_written(x):
    os.environ["TWIN_W"] = "5"
    v = os.environ.pop("TWIN_W")
    return x, v


@case
def clock(x):
    t = time.perf_counter()
    return t > 0, time.time() > 1e9, x


@case
def singleton(x):
    s = Singleton()
    s.count += 1
    return x * s.count, Singleton() is s


@case
def interpreter_state(x):
    return sys.version_info >= (3, 11), sys.getrecursionlimit() > 0, sys.maxsize, sys.byteorder, x


@case
def caller_frame(x):
    return sys._getframe().f_code.co_name, sys._getframe().f_lineno > 0, x


@case
def exception_info(x):
    try:
        raise ValueError("v")
    except ValueError:
        kind, value, trace = sys.exc_info()
        line = trace.tb_lineno > 0
    return kind, str(value), line, sys.exc_info(), x


@case
def traceback_text(x):
    import traceback

    try:
        raise ValueError("v")
    except ValueError:
        return traceback.format_exc().splitlines()[-1], x


@case
def function_attributes(x):
    helper.calls = getattr(helper, "calls", 0) + 1
    return x * helper.calls, helper.__name__


@case
def function_attributes_inside(x):
    def f(y: int = 1) -> int:
        """Doc."""
        return f.k * y

    f.k = 3
    return f(x), f.__doc__, f.__annotations__, f.__defaults__, f.__qualname__, f


@case
def code_objects(x):
    return helper.__code__.co_name, helper.__code__.co_varnames, x


@case
def unhashable_key(x):
    try:
        return {[]: 1}
    except TypeError as error:
        return str(error), x


@case
def open_file(x):
    with open(os.devnull, "w") as file:
        file.write("x")
    return x + 1


def looks_at_locals(a):
    b = a + 1
    return sorted(locals()), eval("b"), dir()


@case
def frame_access_in_callee(x):
    names, b, listed = looks_at_locals(x)
    y = b * 2
    return names, y, listed, sorted(vars())


@case
def dir_of_object(x):
    return "shape" in dir(x), [name for name in dir(Singleton) if name == "instance"], x
