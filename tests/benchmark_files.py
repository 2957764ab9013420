"""Files of benchmarks/, as modules: they are scripts beside the package, not parts of it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def benchmark(path: str) -> ModuleType:
    """Such a file (its path below benchmarks/), which finds what lies in its folder as when it is run."""
    file = BENCHMARKS / path
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(f"benchmarks_{path.removesuffix('.py').replace('/', '_')}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
