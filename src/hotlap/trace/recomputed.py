"""What of the forward pass a backward pass computes once more, because its activations were not kept."""

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hotlap.trace import spans
from hotlap.trace.nesting import around
from hotlap.trace.seen import Seen
from hotlap.trace.table import Floats, Ints, Kind, Mask, Trace

# No backward pass of torch calls these: met there, something of the forward pass is computed once more.
_FORWARD_ONLY = re.compile(
    r"aten::(?:_?convolution|(?:cudnn|miopen)_convolution|addmm|linear|(?:native|cudnn|miopen)?_?batch_norm"
    r"|native_(?:layer|group)_norm|_scaled_dot_product_\w+(?<!_backward)|_(?:flash|efficient)_attention_forward|gelu"
    r"|silu_?|relu_?|embedding|native_dropout|_softmax|max_pool2d_with_indices)$"
)
# A sparse product's gradient is such a product as well, and each calls a forward operator (`_sparse_addmm`: `addmm`).
_GRADIENT = re.compile(r"aten::(?:.*backward|_sparse_\w*mm$)")
_NAMED: Mapping[str, Callable[[str], bool]] = {
    "node": lambda name: name.startswith("autograd::engine::evaluate_function"),
    "forward": lambda name: _FORWARD_ONLY.match(name) is not None,
    "gradient": lambda name: _GRADIENT.match(name) is not None,
}


def launched_again(seen: Seen) -> Mask:
    """Events on a device that compute something of the forward pass once more."""
    trace = seen.trace
    again = np.zeros(len(trace.start), bool)
    for rows, node, _, until in _nodes(seen):
        calls = (node >= 0) & (trace.kind[rows] == Kind.RUNTIME)
        again[rows[calls]] = trace.start[rows[calls]] < until[node[calls]]
    return (trace.launch >= 0) & again[np.maximum(trace.launch, 0)]


def on_host_s(seen: Seen) -> float:
    """Of a training on the CPU: seconds a step, as long as the profiler makes them."""
    again = [spans.union(begin, until) for _, _, begin, until in _nodes(seen)]
    steps = np.array([[seen.steps.start, seen.steps.end]])
    return spans.length(spans.common(spans.either(*again), steps)) / max(1, seen.count)


def _nodes(seen: Seen) -> Iterator[tuple[Ints, Ints, Floats, Floats]]:
    """Of each thread with a backward pass: operators and calls in nodes that run forward operators, (R,); the node
    around each, or -1; and (N,) by nodes when the first operator in it begins, and the last forward one ends.

    Up to there a node computes what was not kept. What a node within a node does is that one's own.
    """
    trace = seen.trace
    named = {one: trace.which(Kind.OPERATOR) & trace.where(is_so) for one, is_so in _NAMED.items()}
    for lane in seen.threads.intersection(np.unique(trace.lane[named["node"]]).tolist()):
        rows = _in_nodes_with_forward(trace, trace.lane == lane, named["node"], named["forward"])
        node, gradient = (around(trace, rows, named[one]) for one in ("node", "gradient"))
        begin, until = np.full(len(trace.start), np.inf), np.full(len(trace.start), -np.inf)
        inside = (node >= 0) & (trace.kind[rows] == Kind.OPERATOR) & ~named["node"][rows]
        np.minimum.at(begin, node[inside], trace.start[rows[inside]])
        # Of two events around it the inner one comes later.
        inside &= named["forward"][rows] & (gradient < node)
        np.maximum.at(until, node[inside], trace.end[rows[inside]])
        yield rows, node, begin, until


def _in_nodes_with_forward(trace: Trace, on_lane: Mask, is_node: Mask, is_forward: Mask) -> Ints:
    """Operators and calls of the lane in such nodes, the nodes included: mostly none, and then nobody looks closer."""
    forward_starts = np.append(trace.start[on_lane & is_forward], np.inf)
    nodes = np.flatnonzero(on_lane & is_node)
    nodes = nodes[forward_starts[np.searchsorted(forward_starts, trace.start[nodes])] < trace.end[nodes]]
    ours = on_lane & trace.which(Kind.OPERATOR, Kind.RUNTIME)
    return np.flatnonzero(ours & spans.holds(trace.moments(nodes), trace.start))
