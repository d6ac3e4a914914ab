#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mapped.py FILE UNTIL: maps FILE privately, in two halves, prints its checksum, and prints it
again when the file UNTIL exists."""
import mmap
import os
import sys
import time
import zlib

GRAIN = mmap.ALLOCATIONGRANULARITY


def half(file, offset, size):
    return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE,
                     prot=mmap.PROT_READ | mmap.PROT_EXEC, offset=offset)


with open(sys.argv[1], "rb") as file:
    whole = os.fstat(file.fileno()).st_size
    middle = whole // 2 // GRAIN * GRAIN
    first = half(file, 0, middle)
    second = half(file, middle, whole - middle)


def checksum():
    return zlib.crc32(second, zlib.crc32(first))


print(checksum(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
print(checksum(), flush=True)
