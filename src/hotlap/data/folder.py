"""Where caches lie on disk, and how much of it they may take."""

import os
import shutil
from pathlib import Path

# The rest of a disk belongs to others.
SHARE_OF_DISK = 0.5


def default_folder() -> Path:
    """`$HOTLAP_CACHE`, or the user's cache folder."""
    own = os.environ.get("HOTLAP_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotlap" / "data"


def room_bytes(folder: Path) -> int:
    """Bytes that a cache in this folder may take, which need not be there yet; 0 if nobody can tell."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return int(SHARE_OF_DISK * shutil.disk_usage(folder).free)
    except OSError:
        return 0
