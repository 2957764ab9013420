"""Where caches lie on disk, and how much of it they may take."""

import os
from pathlib import Path

from hotlap import folders

# The rest of a disk belongs to others.
SHARE_OF_DISK = 0.5


def default_folder() -> Path:
    """`$HOTLAP_CACHE`, or the user's cache folder."""
    own = os.environ.get("HOTLAP_CACHE")
    if own:
        return Path(own)
    return folders.cache_folder() / "data"


def room_bytes(folder: Path) -> int:
    """Bytes that a cache in this folder may take, which need not be there yet; 0 if nobody can tell."""
    return int(SHARE_OF_DISK * folders.room_bytes(folder))
