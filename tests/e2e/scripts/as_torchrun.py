# What torchrun does for two processes on one machine, by forks: they have imported already what their parent has.
import os
import random
import sys

from torch.distributed import TCPStore


def split():
    """Returns in each of two processes, which find in their environment what torchrun tells its own."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    both = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    both |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    drawn = random.getstate()
    children = []
    for rank in ("0", "1"):
        children.append(os.fork())
        if not children[-1]:
            os.environ.update(both, RANK=rank, LOCAL_RANK=rank)
            random.setstate(drawn)  # Python seeds it anew in a fork
            return
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, ends)))
