# A module that is executed when it is first used.
import importlib.util
import sys

spec = importlib.util.find_spec("torch")
spec.loader = importlib.util.LazyLoader(spec.loader)
torch = importlib.util.module_from_spec(spec)
sys.modules["torch"] = torch
spec.loader.exec_module(torch)
assert "torch.nn" not in sys.modules

import loop

loop.train()
