# SPDX-License-Identifier: Apache-2.0
"""restart.py GIB DIRECTORY: holds GIB GiB of random data on the GPU and runs small kernels. When it
finds itself in another process, since it was restored, it prints how long that one has lived until
its first kernel had run, and whether the data are right. It makes the file "started" in DIRECTORY,
and ends when there is a file "stop"."""
import os
import sys
import time

import torch


def started():
    """When this process was started, in hundredths of a second after the boot."""
    with open("/proc/self/stat") as f:
        return int(f.read().rpartition(")")[2].split()[19])


def uptime():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


def sums(data):
    return [x.sum().item() for x in data]


gib, where = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
data = [torch.empty(1 << 27, dtype=torch.int64, device="cuda").random_() for _ in range(gib)]
counter = torch.zeros(1, device="cuda")
want = sums(data)
process = started()
open(where + "/started", "w").close()
while not os.path.exists(where + "/stop"):
    counter.add_(1)
    torch.cuda.synchronize()
    now = uptime()
    if started() != process:
        process = started()
        print("first kernel after %.2f s" % (now - process / os.sysconf("SC_CLK_TCK")), flush=True)
        print("data", "right" if sums(data) == want else "WRONG", flush=True)
    time.sleep(0.002)
