# SPDX-License-Identifier: Apache-2.0
"""train.py STEPS: a PyTorch training for gpu_lineage. Its last line has the last loss and a hash of
all losses. At step 40 it waits while the folder GPUCKPT_SELF has a file "hold". With GPU_RESTARTS
gpu_engine.so is preloaded, and loads the driver anew after every tenth step."""
import ctypes
import hashlib
import os
import sys
import time

import torch

where = os.environ.get("GPUCKPT_SELF")
if "GPUCKPT_SELF_LIBRARY" in os.environ:
    ctypes.CDLL(os.environ["GPUCKPT_SELF_LIBRARY"])
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
linear, relu, conv = torch.nn.Linear, torch.nn.ReLU, torch.nn.Conv2d
model = torch.nn.Sequential(torch.nn.Unflatten(1, (2, 32, 32)),
                            conv(2, 4, 3, padding=1, stride=2), relu(),
                            conv(4, 8, 3, padding=1), relu(), torch.nn.Flatten(),
                            linear(2048, 2048), relu(), linear(2048, 2048), relu(),
                            linear(2048, 10)).cuda()
log = hashlib.sha256()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
generator = torch.Generator(device="cuda")
generator.manual_seed(1)
for step in range(int(sys.argv[1])):
    x = torch.randn(512, 2048, device="cuda", generator=generator)
    y = (x.sum(1) > 0).long()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.update(b"%.9g\n" % loss.item())
    if step == 20 and where:
        open(where + "/started", "w").close()
    while step == 40 and where and os.path.exists(where + "/hold"):
        time.sleep(0.01)
    if "GPU_RESTARTS" in os.environ and step % 10 == 9:
        torch.cuda.synchronize()
        assert ctypes.CDLL(None).gpu_engine_restart() == 0
    time.sleep(0.01)
print("loss %.8f log %s" % (loss.item(), log.hexdigest()))
