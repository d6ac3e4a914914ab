# SPDX-License-Identifier: Apache-2.0
# pool.py STEPS OUT: processes of Python: a Pool, ProcessPoolExecutors that start their own (spawn,
# forkserver), a Manager, workers with Queue, Lock, Value, Array, Barrier and SharedMemory, and one
# that is started at the end (spawn) with a Lock of the beginning. Every run has the same output.
# With POOL_UNTIL=FILE in the environment it is slow and does not end before FILE exists.
import concurrent.futures
import hashlib
import multiprocessing
import os
import sys
import time
from multiprocessing import shared_memory

WORKERS = 2
CELLS = 4096


def digest(text):
    for _ in range(200):
        text = hashlib.sha256(text.encode()).hexdigest()
    return text


def work(me, tasks, answers, barrier, counter, row, name):
    memory = shared_memory.SharedMemory(name)
    parent = os.getppid()
    done = 0
    while (task := tasks.get()) is not None:
        assert os.getppid() == parent
        with counter.get_lock():
            counter.value += 1
        done += 1
        row[me] = done
        memory.buf[me * CELLS + done % CELLS] = done % 251
        barrier.wait()
        answers.put((me, done, digest(task)))
    memory.close()


def late(lock):
    with lock:
        pass


def slowly(until):
    if not os.path.exists(until):
        time.sleep(0.01)


def main():
    steps, out = int(sys.argv[1]), open(sys.argv[2], "w")
    until = os.environ.get("POOL_UNTIL", "/")
    memory = shared_memory.SharedMemory(create=True, size=WORKERS * CELLS)
    tasks = [multiprocessing.Queue() for _ in range(WORKERS)]
    answers = multiprocessing.Queue()
    barrier = multiprocessing.Barrier(WORKERS)
    counter = multiprocessing.Value("l", 0)
    row = multiprocessing.Array("l", WORKERS)
    workers = [multiprocessing.Process(target=work, args=(
        i, tasks[i], answers, barrier, counter, row, memory.name)) for i in range(WORKERS)]
    for worker in workers:
        worker.start()
    sum_ = "start"
    spawn, server = map(multiprocessing.get_context, ("spawn", "forkserver"))
    lock = spawn.Lock()
    last = spawn.Process(target=late, args=(lock,))
    with multiprocessing.Pool(2) as pool, multiprocessing.Manager() as manager, \
            concurrent.futures.ProcessPoolExecutor(2, spawn) as executor, \
            concurrent.futures.ProcessPoolExecutor(1, server) as served:
        managed = manager.dict()
        for step in range(steps):
            for i in range(WORKERS):
                tasks[i].put(f"{sum_} {i}")
            got = sorted(answers.get() for _ in range(WORKERS))
            assert list(row) == [step + 1] * WORKERS and counter.value == WORKERS * (step + 1)
            assert memory.buf[(step + 1) % CELLS] == (step + 1) % 251
            got += pool.map(digest, [f"{sum_} {i}" for i in range(4)])
            got += [executor.submit(digest, f"{sum_} e{i}").result() for i in range(2)]
            got.append(served.submit(digest, f"{sum_} s").result())
            managed[step] = sum_
            assert len(managed) == step + 1 and managed[step] == sum_
            sum_ = hashlib.sha256(repr(got).encode()).hexdigest()
            if step % 20 == 0:
                print(step, sum_, file=out, flush=True)
            slowly(until)
        while not os.path.exists(until):
            time.sleep(0.01)
    for queue in tasks:
        queue.put(None)
    last.start()
    for worker in workers + [last]:
        worker.join()
    codes = [worker.exitcode for worker in workers + [last]]
    memory.close()
    memory.unlink()
    print(sum_, codes, counter.value, file=out)
    out.close()


if __name__ == "__main__":
    main()
