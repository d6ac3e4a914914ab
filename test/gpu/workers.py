# SPDX-License-Identifier: Apache-2.0
"""workers.py EPOCHS [compile]: a PyTorch training whose data come from a DataLoader's workers, by
pinned memory. Each epoch has new workers, forked from a process that uses the GPU. compile: the
model is compiled. Its last line has the last loss and a hash of all losses. In the middle of epoch
1 it says so and is slow, and waits in the middle of epoch 2, until the file UNTIL exists."""
import hashlib
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(256, generator=g)
        return x, (x.sum() > 0).long()


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    model = torch.nn.Sequential(linear(256, 512), relu(), linear(512, 512), relu(),
                                linear(512, 2)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    order = torch.Generator().manual_seed(1)
    forward = torch.compile(model) if "compile" in sys.argv else model
    log = hashlib.sha256()
    for epoch in range(int(sys.argv[1])):
        for step, (x, y) in enumerate(DataLoader(Noise(), batch_size=32, num_workers=3,
                                                 shuffle=True, pin_memory=True, generator=order)):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(forward(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.update(b"%.9g\n" % loss.item())
            while epoch and step > 2 and not os.path.exists(os.environ["UNTIL"]):
                print("step %d of epoch %d" % (step, epoch), file=sys.stderr, flush=True)
                time.sleep(0.3)
                if epoch == 1 or step == 3:
                    break
    print("loss %.8f log %s" % (loss.item(), log.hexdigest()))


if __name__ == "__main__":
    main()
