# SPDX-License-Identifier: Apache-2.0
# A database of SQLite in WAL mode, with two writers and a reader.
import os
import sqlite3
import time

ROWS = 300


def is_slow():
    return not os.path.exists(os.environ["UNTIL"])


def connect():
    return sqlite3.connect("db", timeout=60, isolation_level=None)


def write(me):
    db = connect()
    for k in range(ROWS):
        while k == ROWS - 1 and is_slow():
            time.sleep(.1)
        db.execute("begin immediate")
        last = db.execute("select coalesce(max(n), 0) from t").fetchone()[0]
        db.execute("insert into t values(?, ?, ?)", (last + 1, me, k))
        db.execute("commit")
        if is_slow():
            time.sleep(.2)
    db.close()


def start(me):
    pid = os.fork()
    if pid == 0:
        write(me)
        os._exit(0)
    return pid


db = connect()
assert db.execute("pragma journal_mode=wal").fetchone() == ("wal",)
db.execute("pragma synchronous=off")
db.execute("create table t(n integer primary key, me, k)")
db.close()
writers = [start(me) for me in range(2)]
n = 0
while n < 2 * ROWS:
    db = connect()
    n = db.execute("select count(*) from t").fetchone()[0]
    db.close()
    print(n, file=open("answers", "a"))
    time.sleep(.1)
ends = [os.waitpid(pid, 0)[1] for pid in writers]
db = connect()
rows = db.execute("select n from t order by n").fetchall()
each = [db.execute("select k from t where me = ? order by n", (me,)).fetchall()
        == [(k,) for k in range(ROWS)] for me in range(2)]
print(db.execute("pragma integrity_check").fetchone(), rows == [(n + 1,) for n in range(2 * ROWS)],
      each, ends, file=open("final", "w"))
