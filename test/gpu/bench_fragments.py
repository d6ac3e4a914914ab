# SPDX-License-Identifier: Apache-2.0
"""The device memory that a program's allocations take, relative to the bytes that it requested.
`bench_fragments.py record FILE` writes a PyTorch training's calls of cudaMalloc ("segments": with
PyTorch's cache, "tensors": as if it cached nothing). `bench_fragments.py replay FILE
segments|tensors` makes the same calls to the driver, and reads the device's used memory from
nvidia-smi when most is allocated. It is run with and without the stand-in."""
import ctypes
import json
import subprocess
import sys

MIB = 1 << 20


# ---- record

def train():
    import torch
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 64, 7, stride=2, padding=3), torch.nn.ReLU()]
    for _ in range(8):
        layers += [torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                torch.nn.Linear(64, 1000)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(24):
        # batches of different sizes fragment PyTorch's cache
        x = torch.randn(16 + 8 * (step * 5 % 7), 3, 192 + 32 * (step % 3), 224, device="cuda")
        y = torch.randint(1000, (x.shape[0],), device="cuda")
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    torch.cuda.synchronize()


def calls_of(events, take, give):
    calls, numbers = [], {}
    for event in events:
        if event["action"] == take:
            numbers[event["addr"]] = len(calls)
            calls.append([event["size"], None])
        elif event["action"] == give and event["addr"] in numbers:
            calls.append([0, numbers.pop(event["addr"])])
    return calls


def record(path):
    import torch
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    train()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    with open(path, "w") as file:
        json.dump({"segments": calls_of(events, "segment_alloc", "segment_free"),
                   "tensors": calls_of(events, "alloc", "free_completed")}, file)


# ---- replay

def must(rc):
    if rc:
        sys.exit("a driver call failed: %d" % rc)


def used():
    """The first device's used memory, of all processes, in MiB."""
    return int(subprocess.check_output(["nvidia-smi", "--query-gpu=memory.used", "-i", "0",
                                        "--format=csv,noheader,nounits"]))


def peak_of(calls):
    """The call after which most memory is allocated, and how much that is."""
    bytes_now, most, at = 0, 0, 0
    for i, (size, of) in enumerate(calls):
        bytes_now += size if of is None else -calls[of][0]
        if bytes_now > most:
            most, at = bytes_now, i
    return at, most


def replay_all(cuda, name, calls):
    addresses, before = {}, used()
    at, most = peak_of(calls)
    for i, (size, of) in enumerate(calls):
        if of is None:
            address = ctypes.c_uint64()
            must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
            addresses[i] = address
        else:
            must(cuda.cuMemFree_v2(addresses.pop(of)))
        if i == at:
            ratio = (used() - before) * MIB / most
            print("fragments_%s %.3f used/asked" % (name, ratio), flush=True)


def replay(path, name):
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    must(cuda.cuInit(0))
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(cuda.cuCtxSetCurrent(context))
    with open(path) as file:
        replay_all(cuda, name, json.load(file)[name])


if sys.argv[1] == "record":
    record(sys.argv[2])
else:
    replay(sys.argv[2], sys.argv[3])
