"""What a job on a cluster runs (`hotlap.launch.placed`): `python -m hotlap.cli.node FOLDER`."""

import signal
import sys
from pathlib import Path

from hotlap import machine
from hotlap.cli.workbench import environment
from hotlap.errors import HotlapError
from hotlap.experiment.runs import run_trial_groups
from hotlap.launch import Launcher
from hotlap.launch.placed import BEGUN, BROUGHT, ORDER, Brought, Order
from hotlap.record import load, save


def main() -> int:
    """Read the order, run it, write what came of it: for the user's hotlap, so it prints nothing itself."""
    # How schedulers end a job: the exception closes the launcher, and with it what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(sys.argv[1])
    (folder / BEGUN).touch()
    order = load(folder / ORDER, Order)
    seen = machine.look()
    with Launcher(
        environment=lambda plan: environment(plan, order.memory_bytes),
        folders=[Path(name) for name in order.folders],
        timeout_s=order.timeout_s,
    ) as launcher:
        try:
            (runs,) = run_trial_groups(launcher, [order.plans], limits_s=[order.limit_s])
            brought = Brought(machine=seen, runs=tuple(runs), not_enclosed=launcher.not_enclosed)
        except HotlapError as error:
            brought = Brought(machine=seen, refused=str(error))
    save(brought, folder / BROUGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
