# A finder of the script's own stands in front of all others, and finds torch by itself.
import sys
from importlib.machinery import PathFinder

import loop


class Finder:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name.startswith("torch") else None


sys.meta_path.insert(0, Finder())
loop.train()
