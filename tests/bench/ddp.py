"""PyTorch's DistributedDataParallel over Gloo on the model, batch and optimizer of bench_step's mlp; rank 0 writes one JSON object.

Ranks as torchrun names them: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.   ddp.py FILE BLOCKS STEPS
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

out, blocks, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if ranks > 1:
    dist.init_process_group("gloo")
torch.manual_seed(1)
data, target = torch.randn(4096, 256), torch.randint(10, (4096,))
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
model = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True) if ranks > 1 else net
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
order = torch.randperm(4096).split(32)[rank::ranks]
position = 0


def step():
    global position
    index = order[position % len(order)]
    position += 1
    loss = nn.functional.cross_entropy(model(data[index]), target[index])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(5):
    step()
times = []
for _ in range(blocks):
    if ranks > 1:
        dist.barrier()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    times.append(1e3 * (time.perf_counter() - started) / steps)
if rank == 0:
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"ddp_ms": times}, file)
if ranks > 1:
    dist.barrier()
    dist.destroy_process_group()
