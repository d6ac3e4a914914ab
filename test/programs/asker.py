# SPDX-License-Identifier: Apache-2.0
"""asker.py DIR: what asker.f90 does, in Python."""
import os
import sys
import time

import gpuckpt

directory = sys.argv[1]
result = gpuckpt.checkpoint()
with open(directory + "/results", "a", encoding="utf-8") as results:
    print(result, gpuckpt.error(), file=results)
while not os.path.exists(directory + "/end"):
    time.sleep(0.1)
