# Imports torch by its name.
import importlib

import loop

assert importlib.import_module("torch.nn").Linear
loop.train()
