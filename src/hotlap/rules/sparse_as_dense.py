"""sparse-as-dense: products with matrices that are nearly all 0 are computed as if they were full.

What it says: what such products of data (an adjacency, counts of words, one-hot vectors) take in a step beyond what
they would take of a sparse matrix, and the line with most of it. It is looked for on the CPU.
Why it is bad: a dense product multiplies and reads each 0. One of a sparse matrix takes as long as some four to eleven
dense ones for each element that is not 0: of a matrix that is filled to 1% it is some ten times as fast.
Example: `adjacency @ x` in each layer of a graph network; a linear layer on bags of 20,000 words.
Risk: sums are made in another order, so the last bits differ; not every operator takes sparse matrices.

Before:

    adjacency = adjacency / adjacency.sum(1, keepdim=True)
    for epoch in range(100):
        h = adjacency @ x

After:

    adjacency = (adjacency / adjacency.sum(1, keepdim=True)).to_sparse_csr()
    for epoch in range(100):
        h = adjacency @ x
"""

import math

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, finding, in_vain

EXPLAINS = frozenset({"memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Products of forward and backward passes."""
    found = in_vain(run, SightingKind.ZEROS)
    if found is None:
        return None
    worst, cost_s = found
    shape = str(worst.detail["shape"])
    columns = int(shape.rpartition(" ")[2])
    in_row = float(worst.detail["filled"] or 0.0) * columns
    remedy = "A sparse matrix (`to_sparse_csr()`; of rows that change, `nn.EmbeddingBag` of columns) leaves them out"
    if math.isclose(in_row, 1.0):
        remedy = "One-hot rows only choose: `nn.Embedding`, or `weight[numbers]`, makes and reads no such matrix"
    return finding(
        run,
        cost_s,
        f"Products with matrices that are nearly all 0 take {run.with_share(cost_s)} of each step for zeros; most of it"
        f"{at_sighting(worst)}, where {max(in_row, 1):,.0f} of {columns:,} elements of a row are not 0 ({shape}): "
        f"{worst.text}. {remedy}.",
        change=of_line(worst),
    )
