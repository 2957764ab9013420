"""What of the forward pass a backward pass computes once more, because its activations were not kept."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hotlap.trace import spans
from hotlap.trace.steps import Steps
from hotlap.trace.table import Ints, Kind, Mask, Trace

# No backward pass of torch calls these: met there, something of the forward pass is computed once more.
_FORWARD_ONLY = re.compile(
    r"aten::(?:_?convolution|(?:cudnn|miopen)_convolution|addmm|linear|(?:native|cudnn|miopen)?_?batch_norm"
    r"|native_(?:layer|group)_norm|_scaled_dot_product_\w+(?<!_backward)|_(?:flash|efficient)_attention_forward|gelu"
    r"|silu_?|relu_?|embedding|native_dropout|_softmax|max_pool2d_with_indices)$"
)
_NODE = re.compile(r"autograd::engine::evaluate_function")


def launched_again(trace: Trace, threads: frozenset[int]) -> Mask:
    """Events on a device that compute something of the forward pass once more."""
    again = np.zeros(len(trace.start), bool)
    again[[row for node in _nodes(trace, threads) for row in node.launches if trace.start[row] < node.until]] = True
    return (trace.launch >= 0) & again[np.maximum(trace.launch, 0)]


def on_host_s(trace: Trace, threads: frozenset[int], told: Steps) -> float:
    """Of a training on the CPU: seconds a step, as long as the profiler makes them."""
    again = [(node.begin, node.until) for node in _nodes(trace, threads) if node.until > node.begin]
    if not again:
        return 0.0
    begins, ends = (np.array(column) for column in zip(*again, strict=True))
    steps = np.array([[told.start, told.end]])
    return spans.length(spans.common(spans.union(begins, ends), steps)) / max(1, len(told.edges) - 1)


@dataclass
class _Node:
    """Of the backward pass, as autograd runs it."""

    launches: list[int] = field(default_factory=list)
    begin: float = math.inf
    """Of its first operator."""
    until: float = -math.inf
    """End of the last forward operator in it."""


def _nodes(trace: Trace, threads: frozenset[int]) -> Iterator[_Node]:
    """Those that run forward operators, up to the last of which they compute what was not kept."""
    backward = np.unique(trace.lane[trace.which(Kind.OPERATOR) & trace.named(_NODE.pattern)])
    for lane in threads.intersection(backward.tolist()):
        yield from _on_lane(trace, lane)


def _on_lane(trace: Trace, lane: int) -> Iterator[_Node]:
    """What a node within a node does is that one's own."""
    is_node = [_NODE.match(name) is not None for name in trace.names]
    is_forward = [_FORWARD_ONLY.match(name) is not None for name in trace.names]
    is_gradient = [name.startswith("aten::") and "backward" in name for name in trace.names]
    nodes: list[_Node] = []
    around: list[tuple[float, _Node | None, bool]] = []
    rows = _in_nodes_with_forward(trace, lane, np.array(is_node), np.array(is_forward))
    columns = (trace.start[rows], trace.end[rows], trace.kind[rows], trace.name[rows])
    for row, start, end, kind, name in zip(rows.tolist(), *(one.tolist() for one in columns), strict=True):
        while around and around[-1][0] <= start:
            around.pop()
        _, node, in_gradient = around[-1] if around else (end, None, False)
        if kind == Kind.RUNTIME:
            if node is not None:
                node.launches.append(row)
            continue
        if is_node[name]:
            node, in_gradient = _Node(), False
            nodes.append(node)
        elif node is not None:
            node.begin = min(node.begin, start)
            if is_forward[name] and not in_gradient:
                node.until = max(node.until, end)
        around.append((end, node, in_gradient or is_gradient[name]))
    yield from nodes


def _in_nodes_with_forward(trace: Trace, lane: int, is_node: Mask, is_forward: Mask) -> Ints:
    """Operators and calls of the lane in such nodes, the nodes included: mostly none, and then nobody looks closer."""
    ours = (trace.lane == lane) & trace.which(Kind.OPERATOR, Kind.RUNTIME)
    of_operators = ours & (trace.kind == Kind.OPERATOR)
    forward, nodes = (of_operators & named[trace.name] for named in (is_forward, is_node))
    forward_starts = np.append(trace.start[forward], np.inf)
    around = np.flatnonzero(nodes)
    around = around[forward_starts[np.searchsorted(forward_starts, trace.start[around])] < trace.end[around]]
    return np.flatnonzero(ours & spans.holds(spans.union(trace.start[around], trace.end[around]), trace.start))
