"""padded_recurrent(): LSTM and GRU layers that are given packed sequences compute them padded, with the same results.

On the CPU torch computes a packed batch position by position, while a padded one goes through oneDNN's fused LSTM at
once. What a packed batch promises is kept by one more input: it says "padding", and its weight shuts the gates there
(a sigmoid of +-1e4 is 1 or 0 in float32). So a memory cell stays as it was at its sequence's end, a reverse direction
that starts in padding starts from zeros, and nothing flows back out of padding. Packing and unpacking themselves, which
torch does with a copy for each position as well, take one copy each.
"""

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

Set = Callable[[Any, str, Any], object]
"""`setattr`, or something that remembers what was there before."""

MAX_WASTE = 3.0
"""Positions of the padded batch for each one of data: beyond, the packed batch is computed as it is.

With 1.84 of them a GRU was 1.65 times as fast padded (an LSTM 4.5 times; two cores, 32 sequences of 5 to 59, 96 units),
so it breaks even at three.
"""

_SHUT = 1e4


def padded_recurrent() -> None:
    """Compute packed batches padded from now on, in this process, wherever that gives the same results.

    For `nn.LSTM` and `nn.GRU` on the CPU in float32; without `proj_size`, autocast or compilation. Second derivatives
    (`create_graph=True`) of an LSTM are not there any more: oneDNN has none.
    """
    known_layers().install(setattr)


@cache
def known_layers() -> "PaddedLayers":
    """The one object of this process."""
    return PaddedLayers()


class PaddedLayers:
    """Puts itself before `forward` of the two kinds of layers, and remembers why it left calls to torch.

    And before the functions behind torch.nn.utils.rnn, which scripts import by name.
    """

    def __init__(self) -> None:
        self.installed = False
        self.num_padded = 0
        """Calls that were computed padded."""
        self.refused: str | None = None
        """Why the last packed batch that was left to torch was; None if there was none."""

    def install(self, put: Set) -> None:
        """Replace what the layers do, through `put`."""
        if self.installed:
            return
        for name, value in {"installed": True, "num_padded": 0, "refused": None}.items():
            put(self, name, value)
        for kind in (nn.LSTM, nn.GRU):
            put(kind, "forward", self._around(kind.forward))
        functions: Any = torch._VF  # its functions are not known to types
        put(functions, "_pack_padded_sequence", _packing(functions._pack_padded_sequence))
        put(functions, "_pad_packed_sequence", _unpacking(functions._pad_packed_sequence))

    def why_idle(self) -> str | None:
        """Why nothing was computed padded; "" if nothing packed was there, None if something was."""
        if self.num_padded:
            return None
        return "" if self.refused is None else f"A recurrent layer computes packed as before: {self.refused}."

    def _around(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def padded_forward(layer: nn.RNNBase, input: Any, hx: Any = None) -> Any:
            if torch.compiler.is_compiling() or not isinstance(input, PackedSequence):
                return forward(layer, input, hx)
            reason = _why_not(layer, input, hx)
            if reason is not None:
                self.refused = reason
                return forward(layer, input, hx)
            self.num_padded += 1
            return _run(layer, input, hx)

        return padded_forward


def _why_not(layer: nn.RNNBase, packed: PackedSequence, hx: Any) -> str | None:
    """Why this call is left to torch."""
    data = packed.data
    reasons = {
        "cuDNN computes packed batches by itself": not data.is_cpu,
        "its numbers are no float32": {one.dtype for one in (data, *layer.parameters())} != {torch.float32},
        "it runs under autocast": torch.is_autocast_enabled("cpu"),
        "it has projections (proj_size)": layer.proj_size > 0,
        "its reverse direction is given a state to start from": layer.bidirectional and hx is not None,
        "it is traced": _is_traced(),
        f"its lengths differ so much that a padded batch would be over {MAX_WASTE:g} times as large": (
            len(packed.batch_sizes) * int(packed.batch_sizes[0]) > MAX_WASTE * len(data)
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _run(layer: nn.RNNBase, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
    """What `layer(packed, hx)` gives."""
    data, sizes, order, back = packed
    is_lstm = isinstance(layer, nn.LSTM)
    states = _start(layer, packed, hx)
    layer.check_forward_args(data, states if is_lstm else states[0], sizes)  # type: ignore[arg-type] # a pair or one
    batch = int(sizes[0])
    is_data = _is_data(sizes)
    places = _places(is_data)
    ends = (is_data.sum(0) - 1) * batch + torch.arange(batch, device="cpu")
    shut = (~is_data).to(data.dtype)[..., None]
    directions = 1 + layer.bidirectional
    hidden: list[torch.Tensor] = []
    cells: list[torch.Tensor] = []
    rows = data
    for number, weights in enumerate(_weights(layer)):
        if number and layer.dropout and layer.training:
            # On packed rows, as torch does it: the same numbers are drawn for the same places.
            rows = nn.functional.dropout(rows, layer.dropout, training=True)
        padded = rows.new_zeros(len(sizes) * batch, rows.shape[1]).index_copy(0, places, rows)
        x = torch.cat((padded.view(len(sizes), batch, -1), shut), 2)
        of_layer = slice(number * directions, (number + 1) * directions)
        out, *last = _compute(layer, x, [state[of_layer] for state in states], weights)
        out = out.reshape(len(sizes) * batch, -1)
        rows = out.index_select(0, places)
        # Forwards the last output goes on changing behind a sequence's end; a reverse direction ends at its beginning.
        hidden += [out.index_select(0, ends)[None, :, : layer.hidden_size], last[0][1:]]
        cells += last[1:]
    result = PackedSequence(rows, sizes, order, back)
    h = torch.cat(hidden)
    if is_lstm:
        return result, layer.permute_hidden((h, torch.cat(cells)), back)  # type: ignore[arg-type] # an LSTM's are two
    return result, layer.permute_hidden(h, back)


def _start(layer: nn.RNNBase, packed: PackedSequence, hx: Any) -> tuple[torch.Tensor, ...]:
    """The states to start from, in the order of the packed batch."""
    if hx is None:
        count = layer.num_layers * (1 + layer.bidirectional)
        zeros = packed.data.new_zeros(count, int(packed.batch_sizes[0]), layer.hidden_size)
        return (zeros, zeros) if isinstance(layer, nn.LSTM) else (zeros,)
    states = layer.permute_hidden(hx, packed.sorted_indices)
    return tuple(states) if isinstance(layer, nn.LSTM) else (states,)


def _weights(layer: nn.RNNBase) -> Iterator[list[torch.Tensor]]:
    """Of each layer, as torch orders them (both directions), with a column more for "padding" in the first of each."""
    of_direction = 4 if layer.bias else 2
    of_layer = of_direction * (1 + layer.bidirectional)
    flat = [weight for weight in layer._flat_weights if weight is not None]
    column = _shutting(layer, flat[0])
    for begin in range(0, len(flat), of_layer):
        weights = list(flat[begin : begin + of_layer])
        for first in range(0, of_layer, of_direction):
            weights[first] = torch.cat((weights[first], column), 1)
        yield weights


def _shutting(layer: nn.RNNBase, weight: torch.Tensor) -> torch.Tensor:
    """(gates x hidden, 1), like `weight`. An LSTM: input, forget, cell, output; a GRU: reset, update, new."""
    size = layer.hidden_size
    column = weight.new_zeros(weight.shape[0], 1)
    column[size : 2 * size] = _SHUT  # what was there is kept
    if isinstance(layer, nn.LSTM):
        column[:size] = -_SHUT  # and nothing is let in
    return column


def _compute(
    layer: nn.RNNBase, x: torch.Tensor, states: list[torch.Tensor], weights: list[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """(outputs, last hidden states[, last cells]) of one layer: (time, batch, features)."""
    settings = (layer.bias, 1, 0.0, layer.training, layer.bidirectional, False)
    if isinstance(layer, nn.LSTM):
        return torch._VF.lstm(x, states, weights, *settings)
    return torch._VF.gru(x, states[0], weights, *settings)


def _is_data(sizes: torch.Tensor) -> torch.Tensor:
    """Batch sizes of a packed batch -> (time, batch) of booleans: no padding."""
    return torch.arange(int(sizes[0]), device="cpu") < sizes[:, None]


def _places(is_data: torch.Tensor) -> torch.Tensor:
    """Rows of a padded batch, time first, that hold data: in the order of the packed ones."""
    return is_data.flatten().nonzero().squeeze(1)


def _packing(pack: Callable[..., Any]) -> Callable[..., Any]:
    """`_pack_padded_sequence` that copies once."""

    def pack_padded(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, ...]:
        if torch.compiler.is_compiling() or not _can_pack(padded, lengths, batch_first):
            return pack(padded, lengths, batch_first)  # type: ignore[no-any-return]
        is_data = lengths > torch.arange(int(lengths[0]), device="cpu")[:, None]
        places = _places(is_data)
        if batch_first:
            time, row = places // len(lengths), places % len(lengths)
            places = row * padded.shape[1] + time
        return padded.flatten(0, 1).index_select(0, places), is_data.sum(1)

    return pack_padded


def _can_pack(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> bool:
    """The batch lies on the CPU and is one that torch would pack without an error."""
    if not padded.is_cpu or padded.dim() < 2 or not lengths.is_cpu or lengths.dim() != 1 or _is_traced():
        return False
    batch, longest = (padded.shape[0], padded.shape[1]) if batch_first else (padded.shape[1], padded.shape[0])
    if len(lengths) != batch or not batch or padded.numel() == 0:
        return False
    return int(lengths[-1]) > 0 and int(lengths[0]) <= longest and bool((lengths[1:] <= lengths[:-1]).all())


def _unpacking(unpack: Callable[..., Any]) -> Callable[..., Any]:
    """`_pad_packed_sequence` that copies once."""

    def pad_packed(
        data: torch.Tensor, sizes: torch.Tensor, batch_first: bool, value: float, total: int
    ) -> tuple[torch.Tensor, ...]:
        if torch.compiler.is_compiling() or not data.is_cpu or _is_traced() or total < len(sizes):
            return unpack(data, sizes, batch_first, value, total)  # type: ignore[no-any-return]
        is_data = _is_data(sizes)
        batch = is_data.shape[1]
        rows = data.new_full((total * batch, *data.shape[1:]), value).index_copy(0, _places(is_data), data)
        padded = rows.view(total, batch, *data.shape[1:])
        return padded.transpose(0, 1) if batch_first else padded, is_data.sum(0)

    return pad_packed


def _is_traced() -> bool:
    return torch.jit.is_tracing()  # type: ignore[attr-defined, no-any-return, no-untyped-call]
