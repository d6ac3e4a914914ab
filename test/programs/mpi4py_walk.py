#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mpi4py_walk.py STEPS [MILLISECONDS [FOLDER]]: uses of MPI that are common in Python programs and
rare in C programs: pickled messages of any size, operations written in Python, objects that are
probed for and matched, persistent requests, windows, files, and communicators that are made and
freed all the time. Each step changes one digest in all ranks; rank 0 prints it at the end, and
"step N" to stderr now and then. FOLDER, which all ranks see, is for MPI-IO; while it has a file
"hold" the ranks stay at half of the steps. Windows are used only below MPI.THREAD_MULTIPLE,
mpi4py's default (MPI4PY_RC_THREAD_LEVEL): with it Open MPI has no windows between nodes that have
only TCP."""
import hashlib
import os
import random
import sys
import time

import numpy
from mpi4py import MPI
from mpi4py.util import pkl5

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def digest(*things):
    """16 hexadecimal digits."""
    return hashlib.sha256(repr(things).encode()).hexdigest()[:16]


def thing(rng):
    """An object that is pickled: small, or too large for an eager message."""
    kind = rng.randrange(4)
    if kind == 0:
        return {"n": rng.random(), "list": [rng.randrange(1000) for _ in range(rng.randrange(50))]}
    if kind == 1:
        return bytes(rng.getrandbits(8) for _ in range(rng.randrange(100))) * 1000
    if kind == 2:
        return numpy.arange(rng.randrange(1, 20000), dtype="f8") * rng.random()
    return (None, "word" * rng.randrange(9), rng.getrandbits(100))


def as_told(obj):
    """The text of any object."""
    return digest(obj.tobytes() if isinstance(obj, numpy.ndarray) else obj)


def pickled(comm, rng):
    """Messages around the ring, received in three ways."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out = [thing(random.Random(rng.random() + comm.rank)) for _ in range(3)]
    sent = [comm.isend(obj, dest=right, tag=i) for i, obj in enumerate(out)]
    first = comm.recv(source=left, tag=0)
    message = comm.mprobe(source=left, tag=1)
    pending = comm.irecv(1 << 20, source=left, tag=2)
    got = [as_told(first), as_told(message.recv()), as_told(pending.wait())]
    MPI.Request.waitall(sent)
    return comm.allgather(got)


def large(comm, rng):
    """Objects pickled out of band: several messages each."""
    comm = pkl5.Intracomm(comm)
    obj = thing(rng) if comm.rank == 0 else None
    return as_told(comm.bcast(obj, root=0))


def python_op(comm, rng):
    """An operation that is a Python function, on buffers and on objects."""
    def combine(a, b, _):
        x, y = numpy.frombuffer(a, "i8"), numpy.frombuffer(b, "i8")
        y[:] = (x * 3 + y * 5) % 1000003
    op = MPI.Op.Create(combine, commute=False)
    mine = numpy.array([rng.randrange(1000) + comm.rank, comm.rank], dtype="i8")
    total = numpy.zeros(2, dtype="i8")
    comm.Allreduce(mine, total, op=op)
    scan = numpy.zeros(2, dtype="i8")
    comm.Iscan(mine, scan, op=op).Wait()
    op.Free()
    pairs = comm.allreduce([("rank", comm.rank)], op=lambda a, b: a + b)
    return total.tolist(), comm.allgather(scan.tolist()), pairs


def persistent(comm, rng):
    """A ring of persistent requests, started several times."""
    value, got = numpy.array([float(comm.rank)]), numpy.zeros(1)
    ring = [comm.Send_init(value, (comm.rank + 1) % comm.size, 9),
            comm.Recv_init(got, (comm.rank - 1) % comm.size, 9)]
    for _ in range(rng.randrange(1, 4)):
        MPI.Prequest.Startall(ring)
        MPI.Request.Waitall(ring)
        value[0] = got[0] * 1.5 + 1
    for request in ring:
        request.Free()
    return comm.allgather(float(got[0]))


def communicators(comm, rng):
    """Communicators made, used and freed: split, grid, intercommunicator, a deleted attribute."""
    half = comm.Split(comm.rank % 2, comm.rank)
    other = half.Create_intercomm(0, comm, 1 - comm.rank % 2, tag=5)
    grid = comm.Create_cart(MPI.Compute_dims(comm.size, 2), periods=[True, False], reorder=False)
    keyval = MPI.Comm.Create_keyval(delete_fn=lambda *_: None)
    grid.Set_attr(keyval, {"kept": rng.random()})
    told = (half.allgather(comm.rank), other.allgather(comm.rank), grid.coords,
            grid.Shift(0, 1), grid.Get_attr(keyval))
    MPI.Comm.Free_keyval(keyval)
    for made in (grid, other, half):
        made.Free()
    return comm.allgather(told)


def window(comm, rng):
    """Each adds to its neighbour's window, under a lock."""
    win = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
    memory = numpy.frombuffer(win.tomemory(), "f8")
    memory[:] = 0
    comm.Barrier()
    for target in range(comm.size):
        win.Lock(target)
        win.Accumulate(numpy.array([rng.random() + comm.rank]), target, comm.rank)
        win.Unlock(target)
    comm.Barrier()
    told = memory.tolist()
    win.Free()
    return comm.allgather(told)


def file_of_all(comm, rng, folder):
    """Records written by a view and read by another rank."""
    name = os.path.join(folder, "file")
    out = numpy.arange(64, dtype="i4") * (comm.rank + 1) + rng.randrange(100)
    got = numpy.zeros(64, dtype="i4")
    there = MPI.File.Open(comm, name, MPI.MODE_RDWR | MPI.MODE_CREATE)
    kind = MPI.INT32_T.Create_vector(8, 8, 8 * comm.size).Commit()
    there.Set_view(4 * 8 * comm.rank, MPI.INT32_T, kind)
    there.Write_all(out)
    there.Sync()
    comm.Barrier()
    there.Set_view(4 * 8 * ((comm.rank + 1) % comm.size), MPI.INT32_T, kind)
    there.Read_at_all(0, got)
    kind.Free()
    there.Close()
    return comm.allgather(got.tolist())


def is_held():
    """Rank 0's view."""
    return WORLD.bcast(len(sys.argv) > 3 and os.path.exists(os.path.join(sys.argv[3], "hold")))


def main():
    """The walk."""
    steps, pause = int(sys.argv[1]), float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0
    state = "0"
    for step in range(steps):
        while step == steps // 2 and is_held():
            time.sleep(0.05)
        rng = random.Random(f"{step} {state}")
        ways = [pickled, large, python_op, persistent, communicators]
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            ways.append(window)
        if len(sys.argv) > 3:
            ways.append(lambda comm, rng: file_of_all(comm, rng, sys.argv[3]))
        state = digest(state, rng.choice(ways)(WORLD, rng))
        if step % 10 == 0 and RANK == 0:
            print("step", step, file=sys.stderr, flush=True)
        time.sleep(pause)
    states = WORLD.gather(state)
    if RANK == 0:
        print(state if len(set(states)) == 1 else states)


main()
