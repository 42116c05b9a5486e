"""Graph breaks because a function talks to the world outside: files, other processes, clocks, sources of randomness."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("The world outside")

_IN_ORDER = "It must happen when the program runs, in order, and not while it is traced."
_FROZEN = "Its value at tracing time would be frozen into the compiled program."

PRINT = _define(
    "print",
    "call of {name}, which writes to the terminal",
    _IN_ORDER,
    "print in front of or behind the compiled function",
    'let it print behind the graph: options={"reorderable_logging_functions": (print,)}',
)
INPUT = _define(
    "terminal-input",
    "call of {name}, which reads from the terminal",
    _IN_ORDER,
    "read outside of the compiled function, and pass the value in",
)
FILE_SYSTEM = _define(
    "file-system",
    "call of {name}, which uses the file system",
    _IN_ORDER,
    "use files outside of the compiled function, and pass in what was read",
)
SAVE_LOAD = _define(
    "save-or-load",
    "call of {name}, which saves or loads tensors",
    _IN_ORDER,
    "return the tensors, and save them behind the compiled function",
)
PROCESS = _define(
    "process-start",
    "call of {name}, which starts or talks to another process",
    _IN_ORDER,
    "do it outside of the compiled function",
)
THREADS = _define(
    "threads",
    "call of {name}, which works with threads",
    "Threads and locks act at once, and another thread would see what is only traced.",
    "start and join threads outside of the compiled function",
    "take locks around the call of the compiled function",
)
NETWORK = _define(
    "network",
    "call of {name}, which uses the network",
    _IN_ORDER,
    "do it outside of the compiled function, and pass in what was received",
)
DATABASE = _define(
    "database",
    "call of {name}, which opens a database",
    _IN_ORDER,
    "do it outside of the compiled function, and pass in what was read",
)
DEBUGGER = _define(
    "debugger",
    "call of {name}, which starts the debugger",
    "The debugger shows the running program, and while it is traced the program does not run.",
    "remove the call, or debug with the function not compiled",
)
EXIT = _define(
    "exit",
    "call of {name}, which ends the program",
    "The program must end when it runs, and not while it is traced.",
    "return a value that tells the caller to end the program",
)
CLOCK = _define(
    "clock",
    "call of {name}, which reads the clock",
    _FROZEN,
    "read the clock outside of the compiled function, and pass the value in",
)
SLEEP = _define(
    "sleep",
    "call of {name}, which waits",
    _IN_ORDER,
    "wait outside of the compiled function",
)
PYTHON_RANDOM = _define(
    "python-random",
    "call of {name}, which uses Python's random numbers",
    "Numbers that are drawn with known arguments are a part of the graph. This gives something else, needs what is not "
    "known yet, or looks at the state of the generator.",
    "draw with torch: torch.rand, torch.randint, torch.randperm",
    "draw outside of the compiled function, and pass the value in",
)
NUMPY_RANDOM = _define(
    "numpy-random",
    "call of {name}, which uses numpy's random numbers",
    "Numbers and arrays that are drawn with known arguments are a part of the graph. This gives something else, needs "
    "what is not known yet, or looks at the state of the generator.",
    "draw with torch: torch.rand, torch.randint, torch.randperm",
)
ENTROPY = _define(
    "system-entropy",
    "call of {name}, which draws random bytes from the system",
    _FROZEN,
    "draw outside of the compiled function, and pass the value in",
)
PROCESS_IDENTITY = _define(
    "process-identity",
    "call of {name}, which tells processes and threads apart",
    _FROZEN,
    "ask outside of the compiled function, and pass the value in",
)
RANDOM_STATE = _define(
    "random-state",
    "call of {name}, which sets or reads the state of torch's random numbers",
    "The state is that of the process or of a generator, and the compiled program draws when it runs.",
    "seed outside of the compiled function",
    "save and restore the state (torch.random.fork_rng) around the call of the compiled function",
)
OPTIMIZER = _define(
    "optimizer",
    "call of {name}, which decides by what is in the tensors of an optimizer",
    "Which operators run depends on numbers that only the running program has: losses, counts of steps, norms.",
    "step outside of the compiled function",
    "take an optimizer that computes without deciding, which is captured: SGD, Adam, AdamW, NAdam, Adagrad",
)
DATA_LOADING = _define(
    "data-loading",
    "call of {name}, which loads data",
    "Loading data uses files, processes and random numbers.",
    "iterate over the data outside, and compile what is done with one batch",
)
COMMUNICATION = _define(
    "communication",
    "call of {name}, which talks to other processes",
    "Collectives over tensors are captured. This call is none of them, or asks for what their operators do not do: "
    "it must happen when the program runs, in the order of the other processes.",
    "communicate outside of the compiled function",
)
LOGGING = _define(
    "logging-setup",
    "call of {name}, which finds or sets up loggers",
    "Loggers are shared by all threads, behind a lock. Messages to a logger are captured.",
    "get the logger outside of the compiled function, and call its methods: logger.info(...)",
)
PROFILER = _define(
    "profiler",
    "use of {name}, which measures the running program",
    "What is measured runs inside of the graph, in another order.",
    "make the label where it is used, with record_function(...): within a graph it is left out",
    "measure around the call of the compiled function",
)
