"""batched-fetch: batches of data that lies in memory are gathered, not looked up item by item and collated."""

from hotlap.levers.loaders import DataWrapper
from hotlap.record import LoaderFacts, Run


class BatchedFetch(DataWrapper):
    """Wraps each `TensorDataset`, or `Subset` of one, in `hotlap.data.batched`.

    What: a batch is one `index_select` per tensor in place of a Python loop over the items and a stack of the rows.
    Same samples, same order, same random draws.
    Why: fetching tensors in memory one by one is most of a small model's step (pytorch/pytorch#106704, #4959).
    When it hurts: nowhere that is known; nothing is copied or kept, and what the script changes in its tensors is in
    the next batch. Classes derived from these are left alone, for their items may be something else.
    When data change: they are in the next batch, which is gathered from the script's own tensors.
    """

    function = "batched"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves rows of tensors, and some of these."""
        rows_of = loader.subset_of or loader.dataset
        if rows_of == "TensorDataset":
            return None
        return f"Items of {rows_of} are made in Python, one by one; there is nothing to gather them from."
