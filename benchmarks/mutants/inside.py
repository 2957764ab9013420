"""In the process of the tests: the package must be the copy with the mutant, then pytest runs.

    python inside.py FOLDER MODULE ANSWER.json PYTEST_ARGUMENT ...

The answer holds the exit code and the first test that failed.
"""

import importlib.util
import json
import sys
from pathlib import Path


class FirstFailure:
    """A pytest plugin."""

    test: str | None = None

    def pytest_runtest_logreport(self, report: object) -> None:
        if getattr(report, "failed", False) and self.test is None:
            self.test = str(getattr(report, "nodeid", ""))


def main() -> None:
    folder, module, answer, *words = sys.argv[1:]
    # An editable install by scikit-build-core leads each module to the clone, whatever PYTHONPATH says.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
    found = importlib.util.find_spec(module)
    origin = None if found is None else found.origin
    if origin is None or not Path(origin).is_relative_to(folder):
        sys.exit(f"{module} would be imported from {origin}, which is not the copy in {folder}")
    import pytest

    first = FirstFailure()
    code = int(pytest.main(words, plugins=[first]))
    Path(answer).write_text(json.dumps({"code": code, "test": first.test}))


if __name__ == "__main__":
    main()
