"""An error at the other end of a lost connection -> that the worker there is gone, where that is so."""

import traceback

# A worker that is gone may be missed first where the training process fetches a tensor from it: the process asks it for
# the tensor's file descriptor (torch.multiprocessing, sharing strategy "file_descriptor").
_ERRORS = (ConnectionError, EOFError, FileNotFoundError)
_FETCHING = ("torch/utils/data/dataloader.py", "multiprocessing/resource_sharer.py")


def explain(error: BaseException) -> str:
    """To be said behind the error; "" where it is about something else."""
    if not isinstance(error, _ERRORS):
        return ""
    files = [frame.f_code.co_filename.replace("\\", "/") for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not all(any(name.endswith(part) for name in files) for part in _FETCHING):
        return ""
    return " (while a tensor was fetched from a DataLoader worker)"
