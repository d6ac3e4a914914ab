# SPDX-License-Identifier: Apache-2.0
"""libraries.py STEPS: cuBLAS, cuFFT and cuSOLVER for gpu_lineage, in threads that allocate and
launch. Nothing is cached: each tensor is a cudaMalloc of its own. With two GPUs data is copied from
one to the other and back. With GPU_RESTARTS, and gpu_engine.so preloaded, the driver is loaded anew
where no thread works. The last line printed is a digest of all results."""
import ctypes
import hashlib
import os
import sys
import threading
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # equal results, bit for bit
os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")

import torch  # noqa: E402 (the variables come first)

THREADS = 4
PARTS = 4  # between which no thread works
where = os.environ.get("GPUCKPT_SELF")
other = "cuda:1" if torch.cuda.device_count() > 1 else "cuda:0"
results = [[] for _ in range(THREADS)]


def one_step(total, generator, rows):
    a = torch.randn(rows, 256, device="cuda", generator=generator)
    square = a.T @ a + 256 * torch.eye(256, device="cuda")
    lower = torch.linalg.cholesky(square)
    spectrum = torch.fft.rfft(a.flatten()[:65536])
    there = (lower.to(other) * 2).to("cuda:0")
    total += there.sum(0) + spectrum.abs()[:256]


def work(number, part):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(THREADS * part + number)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        total = torch.zeros(256, device="cuda")
        for step in range(int(sys.argv[1]) // PARTS):
            one_step(total, generator, 256 + (37 * step + 11 * number) % 256)
            stream.synchronize()
            if number == 0 and step == 20 and where:
                open(where + "/started", "w").close()
            time.sleep(0.005)
        results[number].append(total.cpu())


# PyTorch must not load cuSOLVER in several threads at once.
one_step(torch.zeros(256, device="cuda"), torch.Generator(device="cuda"), 256)
for part in range(PARTS):
    threads = [threading.Thread(target=work, args=(i, part)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if "GPU_RESTARTS" in os.environ:
        torch.cuda.synchronize()
        assert ctypes.CDLL(None).gpu_engine_restart() == 0
digest = hashlib.sha256(b"".join(r.numpy().tobytes() for v in results for r in v)).hexdigest()
print("libraries", digest)
