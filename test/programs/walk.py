# SPDX-License-Identifier: Apache-2.0
# walk.py STEPS OUT: an ordinary Python program: two threads that pass work through a queue,
# containers that grow and shrink, a file that it appends to. Every run has the same output. With
# WALK_UNTIL=FILE in the environment it is slow and does not end before FILE exists.
import hashlib
import os
import queue
import random
import sys
import threading
import time

steps, out = int(sys.argv[1]), open(sys.argv[2], "w")
numbers = random.Random(7)
work, answers = queue.Queue(4), queue.Queue(4)
table = {}
until = os.environ.get("WALK_UNTIL", "/")


def hasher():
    digest = hashlib.sha256()
    while (item := work.get()) is not None:
        for i in range(2000):
            digest.update(f"{item}:{i}".encode())
        answers.put(digest.hexdigest())


thread = threading.Thread(target=hasher)
thread.start()
for step in range(steps):
    key = numbers.randrange(5000)
    table[key] = [numbers.random() for _ in range(key % 50)]
    if key % 3 == 0:
        table.pop(numbers.choice(list(table)))
    work.put(key)
    table[key + 1] = answers.get()
    if not os.path.exists(until):
        time.sleep(0.01)
    if step % 20 == 0:
        print(step, key, table[key + 1], len(table), file=out, flush=True)
while not os.path.exists(until):
    time.sleep(0.01)
work.put(None)
thread.join()
print(hashlib.sha256(repr(sorted(table.items())).encode()).hexdigest(), file=out)
out.close()
