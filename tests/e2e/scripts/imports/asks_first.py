# Asks whether torch is there, several times, before it is imported and after, and looks at the answer.
import importlib.util
import sys
from importlib.machinery import SourceFileLoader

for _ in range(3):
    spec = importlib.util.find_spec("torch")
    assert type(spec.loader) is SourceFileLoader
    assert "exec_module" not in vars(spec.loader)
    assert spec.loader.get_code("torch").co_filename == spec.origin
    assert "torch" not in sys.modules
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("hotlap")]

import torch

assert importlib.util.find_spec("torch") is torch.__spec__

import loop

loop.train()
