import os
import signal
import sys
import time

import torch

# What it is told to do, most of it at its end, after so many steps.
ending, steps = sys.argv[1], int(sys.argv[2])
if sys.argv[3:] == ["asks"]:
    print("read", sys.stdin.read().strip())
if ending == "listens":
    signal.signal(signal.SIGUSR1, lambda *_: print("USR1 came", flush=True))
print("seeds", torch.initial_seed() == 0, os.environ.get("PYTHONHASHSEED"), os.environ.get("WANDB_MODE"))
print("starts", flush=True)
# By hand: an optimizer imports torch's compiler, which takes as long as torch, and nothing here asks for one.
model = torch.nn.Linear(8, 1)
try:
    for step in range(steps):
        model.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.01 * parameter.grad)
        if ending in ("waits", "listens"):
            time.sleep(0.01)
            if step == 20:
                print("trains", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
finally:
    print("finally", flush=True)
with open("written.txt", "w") as file:
    file.write("kept")
print("the end", file=sys.stderr)
if ending == "crash":
    raise ValueError("at the very end")
if ending == "leaves":
    sys.stdout.flush()
    os._exit(9)
if ending == "exit":
    sys.exit(5)
