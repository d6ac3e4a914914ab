# SPDX-License-Identifier: Apache-2.0
# joblib's workers, which get arrays of over 1 MB by the names of files in /dev/shm.
import hashlib
import os
import shutil
import time

import numpy
from joblib import Parallel, delayed


def digest(text, array):
    text += str(array.sum())
    for _ in range(500):
        text = hashlib.sha256(text.encode()).hexdigest()
    return text


if __name__ == "__main__":
    sum_ = "start"
    with open("answers", "w") as out:
        for k in range(300):
            array = numpy.arange(k, k + 200000)
            got = Parallel(n_jobs=2)(delayed(digest)(sum_ + str(i), array) for i in range(4))
            sum_ = hashlib.sha256(repr(got).encode()).hexdigest()
            print(k, sum_, file=out, flush=True)
            if not os.path.exists(os.environ["UNTIL"]):
                time.sleep(.1)
    shutil.copy("answers", "final")
