"""Runs first in every Python that the user's command starts: waits for torch, then starts the probe.

It must leave no trace that the script could trip over: its folder leaves `sys.path`, and the user's own
`sitecustomize`, which this one shadows, is imported as Python would have imported it, whatever becomes of the probe.
(`PYTHONPATH` in the environment stays, or the processes that a launcher starts would not be reached.) A Python that
starts when hotlap has gone, and its plan with it, is left alone.
"""

import os
import sys
import time


def _start(plan: str) -> None:
    begun = time.perf_counter()
    try:
        from hotlap.probe import bootstrap

        bootstrap.start(plan, begun)
    except Exception as error:
        # The parent tells the user; the script itself must run on as if nothing had been tried.
        try:
            with open(os.path.join(os.path.dirname(plan), "no-probe"), "ab") as told:
                text = "%s: %s\n" % (sys.executable, error)  # noqa: UP031 - for any Python
                told.write(text.encode("utf-8", "backslashreplace"))  # paths that are not UTF-8, any locale
        except OSError:
            return


_template = os.environ.pop("HOTLAP_TEMPLATE", "")
if _template:
    from hotlap.probe.template import serve

    serve(_template)  # goes on in the processes that it forks
if os.path.exists(os.environ.get("HOTLAP_PLAN", "")):
    _start(os.environ["HOTLAP_PLAN"])
_here = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != _here]
sys.path_importer_cache.pop(_here, None)
sys.modules.pop(__name__, None)
# What it raises, also that there is none, is handled by Python's `site`, which is importing this one.
import sitecustomize  # type: ignore[import-not-found] # noqa: E402, F401 - the user's, if there is one
