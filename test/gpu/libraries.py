# SPDX-License-Identifier: Apache-2.0
"""libraries.py STEPS: cuBLAS, cuFFT and cuSOLVER for gpu_lineage, in threads that allocate and
launch. Nothing is cached: each tensor is a cudaMalloc of its own. With two GPUs data is copied from
one to the other and back. The last line printed is a digest of all results."""
import hashlib
import os
import sys
import threading
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # equal results, bit for bit
os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")

import torch  # noqa: E402 (the variables come first)

THREADS = 4
where = os.environ.get("GPUCKPT_SELF")
other = "cuda:1" if torch.cuda.device_count() > 1 else "cuda:0"
results = [None] * THREADS


def one_step(total, generator, rows):
    a = torch.randn(rows, 256, device="cuda", generator=generator)
    square = a.T @ a + 256 * torch.eye(256, device="cuda")
    lower = torch.linalg.cholesky(square)
    spectrum = torch.fft.rfft(a.flatten()[:65536])
    there = (lower.to(other) * 2).to("cuda:0")
    total += there.sum(0) + spectrum.abs()[:256]


def work(number):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(number)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        total = torch.zeros(256, device="cuda")
        for step in range(int(sys.argv[1])):
            one_step(total, generator, 256 + (37 * step + 11 * number) % 256)
            stream.synchronize()
            if number == 0 and step == 20 and where:
                open(where + "/started", "w").close()
            time.sleep(0.005)
        results[number] = total.cpu()


# PyTorch must not load cuSOLVER in several threads at once.
one_step(torch.zeros(256, device="cuda"), torch.Generator(device="cuda"), 256)
threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
digest = hashlib.sha256(b"".join(r.numpy().tobytes() for r in results)).hexdigest()
print("libraries", digest)
