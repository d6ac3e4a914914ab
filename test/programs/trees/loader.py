# SPDX-License-Identifier: Apache-2.0
# PyTorch on the CPU, with the workers of a DataLoader.
import os
import shutil
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(16, generator=g), torch.randn(1, generator=g)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    adam = torch.optim.Adam(model.parameters())
    with open("answers", "w") as out:
        for epoch in range(12):
            for x, y in DataLoader(Noise(), batch_size=16, num_workers=2, shuffle=True):
                loss = ((model(x) - y) ** 2).mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
                print(epoch, loss.item(), file=out, flush=True)
                if not os.path.exists(os.environ["UNTIL"]):
                    time.sleep(.5)
    shutil.copy("answers", "final")
