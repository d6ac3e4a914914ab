#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sparse.py GIB FILE: writes a number into each 256 KiB of GIB GiB of memory. It has as many chunks
as a program that fills the memory, but each has one page: 16 MiB for a GiB. Prints "there", waits
for FILE, and prints how many numbers are unchanged."""
import mmap
import os
import sys
import time

MAP_NORESERVE = 0x4000
STEP = 1 << 18

size = int(sys.argv[1]) << 30
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, STEP):
    memory[at:at + 8] = at.to_bytes(8, "little")
print("there", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
print(sum(memory[at:at + 8] == at.to_bytes(8, "little") for at in range(0, size, STEP)))
