# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training that is bound by its launches: the least time of a step, in microseconds."""
import time

import torch

torch.manual_seed(0)
layers = []
for _ in range(24):
    layers += [torch.nn.Linear(256, 256), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 256, device="cuda")
y = torch.randint(10, (64,), device="cuda")
least = 1e30
for turn in range(12):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    torch.cuda.synchronize()
    if turn:
        least = min(least, time.perf_counter() - start)
print("train_step %.1f us" % (least / 50 * 1e6))
