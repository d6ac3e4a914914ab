# SPDX-License-Identifier: Apache-2.0
"""Two PyTorch trainings, one limited by its launches, one by the device: the shortest time of a
step, in microseconds."""
import time

import torch


def least_step(name, layers, x, y, turns, steps):
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    least = 1e30
    for turn in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.cuda.synchronize()
        if turn:
            least = min(least, time.perf_counter() - start)
    print("%s %.1f us" % (name, least / steps * 1e6))


torch.manual_seed(0)
linear = []
for _ in range(24):
    linear += [torch.nn.Linear(256, 256), torch.nn.ReLU()]
least_step("train_step", linear + [torch.nn.Linear(256, 10)], torch.randn(64, 256, device="cuda"),
           torch.randint(10, (64,), device="cuda"), 9, 30)
conv = [torch.nn.Conv2d(3, 128, 3, padding=1), torch.nn.ReLU()]
for _ in range(6):
    conv += [torch.nn.Conv2d(128, 128, 3, padding=1), torch.nn.BatchNorm2d(128), torch.nn.ReLU()]
conv += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 10)]
least_step("train_step_of_the_device", conv, torch.randn(128, 3, 112, 112, device="cuda"),
           torch.randint(10, (128,), device="cuda"), 5, 6)
