"""The world outside."""

from __future__ import annotations

import datetime
import io
import logging
import os
import queue
import random
import socket
import sqlite3
import subprocess
import sys
import time

import numpy
import torch

from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks

LOGGER = logging.getLogger("table_of_breaks")


@breaks(b.PRINT)
def report(x):
    y = x + 1
    print("half way")
    return y * 2


@report.fixed("print in front of or behind")
def report_behind(graph, x):
    y = graph(lambda x: (x + 1) * 2)(x)
    print("all the way")
    return y


@report.fixed("let it print behind the graph")
def report_moved(graph, x):
    def report(x):
        y = x + 1
        print("half way")
        return y * 2

    return graph(report, options={"reorderable_logging_functions": (print,)})(x)


@breaks(b.INPUT, runs=False)
def asks(x):
    return x * float(input("scale: "))


@asks.fixed("read outside")
def asks_before(graph, x):
    scale = float(io.StringIO("2").readline())
    return graph(lambda x, scale: x * scale)(x, scale)


@breaks(b.FILE_SYSTEM)
def reads(x):
    return x + os.path.exists("/")


@reads.fixed("use files outside")
def reads_before(graph, x):
    return graph(lambda x, found: x + found)(x, os.path.exists("/"))


@breaks(b.SAVE_LOAD)
def saves(x):
    y = x**2 / 2
    torch.save(y, os.devnull)
    return y**3 / 6


@saves.fixed("return the tensors")
def saves_behind(graph, x):
    y = graph(lambda x: x**2 / 2)(x)
    torch.save(y, os.devnull)
    return graph(lambda y: y**3 / 6)(y)


@breaks(b.PROCESS)
def starts(x):
    return x + subprocess.run(["true"]).returncode


@starts.fixed("do it outside")
def starts_before(graph, x):
    return graph(lambda x, code: x + code)(x, subprocess.run(["true"]).returncode)


@breaks(b.THREADS)
def queued(x):
    waiting = queue.Queue()
    waiting.put(x + 1)
    return waiting.get() * 2


@queued.fixed("start and join threads outside")
def queued_outside(graph, x):
    waiting = queue.Queue()
    waiting.put(graph(lambda x: x + 1)(x))
    return graph(lambda y: y * 2)(waiting.get())


@queued.fixed("take locks around")
def queued_under_lock(graph, x):
    waiting = queue.Queue()
    with waiting.mutex:
        return graph(lambda x: (x + 1) * 2)(x)


@breaks(b.NETWORK)
def connects(x):
    with socket.socket() as connection:
        return x + (connection.fileno() < 0)


@connects.fixed("do it outside")
def connects_before(graph, x):
    with socket.socket() as connection:
        closed = connection.fileno() < 0
    return graph(lambda x, closed: x + closed)(x, closed)


@breaks(b.DATABASE)
def looks_up(x):
    return x + sqlite3.connect(":memory:").execute("select 2").fetchone()[0]


@looks_up.fixed("do it outside")
def looks_up_before(graph, x):
    number = sqlite3.connect(":memory:").execute("select 2").fetchone()[0]
    return graph(lambda x, number: x + number)(x, number)


@breaks(b.DEBUGGER, runs=False)
def debugged(x):
    y = x + 1
    breakpoint()
    return y * 2


@debugged.fixed("remove the call")
def not_debugged(x):
    y = x + 1
    return y * 2


@breaks(b.EXIT, runs=False)
def ends(x):
    sys.exit(3)


@ends.fixed("return a value")
def tells_to_end(x):
    return x + 1, 3


@breaks(b.CLOCK, same=False)
def dated(x):
    return x * datetime.datetime.now().year


@dated.fixed("read the clock outside")
def dated_outside(graph, x):
    return graph(lambda x, year: x * year)(x, datetime.datetime.now().year)


@breaks(b.SLEEP)
def waits(x):
    time.sleep(0.001)
    return x + 1


@waits.fixed("wait outside")
def waits_before(graph, x):
    time.sleep(0.001)
    return graph(lambda x: x + 1)(x)


@breaks(b.PYTHON_RANDOM, same=False)
def draws(x):
    return getattr(x, random.choice(["sin", "cos"]))()


@draws.fixed("draw with torch")
def draws_with_torch(x):
    return torch.where(torch.rand(()) < 0.5, x.sin(), x.cos())


@draws.fixed("draw outside")
def draws_before(graph, x):
    return graph(lambda x, name: getattr(x, name)())(x, random.choice(["sin", "cos"]))


@breaks(b.NUMPY_RANDOM, same=False)
def draws_numpy(x):
    return getattr(x, numpy.random.choice(["sin", "cos"]))()


@draws_numpy.fixed("draw with torch")
def draws_torch(x):
    return torch.where(torch.rand(()) < 0.5, x.sin(), x.cos())


@breaks(b.ENTROPY, same=False)
def bytes_drawn(x):
    return x + os.urandom(1)[0]


@bytes_drawn.fixed("draw outside")
def bytes_drawn_before(graph, x):
    return graph(lambda x, number: x + number)(x, os.urandom(1)[0])


@breaks(b.PROCESS_IDENTITY)
def identified(x):
    return x + os.getpid()


@identified.fixed("ask outside")
def identified_before(graph, x):
    return graph(lambda x, number: x + number)(x, os.getpid())


@breaks(b.RANDOM_STATE)
def seeded(x):
    torch.manual_seed(0)
    return x + torch.rand(4)


@seeded.fixed("seed outside")
def seeded_before(graph, x):
    torch.manual_seed(0)
    return graph(lambda x: x + torch.rand(4))(x)


@seeded.fixed("save and restore")
def restored_behind(graph, x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return graph(lambda x: x + torch.rand(4))(x)


WEIGHT = torch.nn.Parameter(torch.ones(4))
WEIGHT.grad = torch.ones(4)
OPTIMIZER, OTHER = torch.optim.RAdam([WEIGHT], lr=0.1), torch.optim.NAdam([WEIGHT], lr=0.1)


@breaks(b.OPTIMIZER)
def trains(x):
    y = x + 1
    OPTIMIZER.step()
    return y * 2


@trains.fixed("step outside")
def trains_behind(graph, x):
    y = graph(lambda x: (x + 1) * 2)(x)
    OPTIMIZER.step()
    return y


@trains.fixed("take an optimizer that computes")
def trains_otherwise(graph, x):
    def train(x):
        y = x + 1
        OTHER.step()
        return y * 2

    return graph(train)(x)


@breaks(b.DATA_LOADING)
def loads(x):
    for batch in torch.utils.data.DataLoader([1, 2, 3], batch_size=1):
        x = x + batch
    return x


@loads.fixed("iterate over the data outside")
def loads_outside(graph, x):
    add = graph(lambda x, batch: x + batch)
    for batch in torch.utils.data.DataLoader([1, 2, 3], batch_size=1):
        x = add(x, batch)
    return x


@breaks(b.COMMUNICATION)
def talks(x):
    return x + torch.distributed.get_pg_count()


@talks.fixed("communicate outside")
def talks_before(graph, x):
    return graph(lambda x, many: x + many)(x, torch.distributed.get_pg_count())


@breaks(b.LOGGING)
def logs(x):
    logging.getLogger("table_of_breaks").info("half way")
    return x + 1


@logs.fixed("get the logger outside")
def logs_to_known(x):
    LOGGER.info("half way")
    return x + 1


LABEL = torch.profiler.record_function("part")


@breaks(b.PROFILER)
def measured(x):
    with LABEL:  # torch.profiler.record_function("part"), made outside
        return x + 1


@measured.fixed("make the label where it is used")
def labelled(x):
    with torch.profiler.record_function("part"):
        return x + 1


@measured.fixed("measure around")
def measured_around(graph, x):
    with torch.profiler.record_function("part"):
        return graph(lambda x: x + 1)(x)
