"""A tensor, however large -> some of its elements, or its direction, by the same rule in every run."""

from functools import lru_cache

import torch

# Elements of a parameter that are compared. Of a share of 1% (what the gate looks for) 650 are seen, to 4% of itself.
MAX_ELEMENTS = 65_000

# Elements that a direction is made of: they tell where all point, and their transform takes 0.1 ms.
_MAX_POINTED = 4096

# Signs that make a direction. The angle between two directions is known from them to 0.2 rad at a right angle, and
# the better the smaller it is.
_NUM_SIGNS = 64

# Samples of a batch, and elements of each, that its content is told by.
_MAX_ROWS, _MAX_COLUMNS = 256, 2048

# Of the projections that make a direction, those that are kept as numbers: a distance is known from them to a quarter
# of itself.
_NUM_PROJECTIONS = 16

_GOLDEN = (5**0.5 - 1) / 2


def sampled(tensor: torch.Tensor, num: int = MAX_ELEMENTS) -> torch.Tensor:
    """(min(numel, num),) the elements at fixed places; may share memory with a tensor that has no more than `num`."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):  # a DTensor: the part of this process
        tensor = tensor.to_local()
    if tensor.numel() <= num:
        return tensor.reshape(-1)
    places = _places(tensor.numel(), num).to(tensor.device)
    if tensor.is_contiguous():
        return tensor.view(-1)[places]
    # `reshape` would copy all of it.
    return tensor[torch.unravel_index(places, tuple(tensor.shape))]


@lru_cache(maxsize=64)
def _places(numel: int, num: int) -> torch.Tensor:
    """(num,) one place in each of `num` equal parts, and the last element.

    Where in its part follows the golden ratio: a fixed stride would meet the same columns of a matrix in every row.
    """
    bounds = torch.arange(num + 1) * numel // num
    within = (torch.arange(num, dtype=torch.float64) * _GOLDEN) % 1.0
    places = bounds[:-1] + (within * bounds.diff()).long()
    places[-1] = numel - 1
    return places


def sampled_rows(tensor: torch.Tensor) -> torch.Tensor:
    """(min(rows, 256), min(columns, 2048),) of a batch, each sample flattened, at fixed places."""
    rows = tensor.detach()
    if len(rows) > _MAX_ROWS:
        rows = rows[_places(len(rows), _MAX_ROWS).to(rows.device)]
    rows = rows.reshape(len(rows), -1)
    return rows if rows.shape[1] <= _MAX_COLUMNS else rows[:, _places(rows.shape[1], _MAX_COLUMNS).to(rows.device)]


def direction(tensor: torch.Tensor) -> str | None:
    """Signs of 64 random projections, as hexadecimal digits; None for a tensor that is 0 or not finite."""
    found = _projections(tensor)
    if found is None:
        return None
    bits = (found[0] > 0).tolist()
    return f"{int(''.join(map(str, map(int, bits))), 2):0{_NUM_SIGNS // 4}x}"


def projections(tensor: torch.Tensor) -> tuple[float, ...] | None:
    """(16,) some of these projections; None as above."""
    found = _projections(tensor)
    return None if found is None else tuple((found[0][:: _NUM_SIGNS // _NUM_PROJECTIONS].double() * found[1]).tolist())


def _projections(tensor: torch.Tensor) -> tuple[torch.Tensor, float] | None:
    """(64 numbers, what to multiply them by).

    They are frequencies of the elements with random signs: each of them depends on every element.
    """
    flat = sampled(tensor, _MAX_POINTED)
    flat = (flat.abs() if flat.is_complex() else flat).to("cpu", torch.float32)
    size = flat.abs().max() if flat.numel() else flat.sum()
    if not (size > 0 and size.isfinite()):
        return None
    spectrum = torch.fft.rfft(flat / size * _random_signs()[: len(flat)], n=_MAX_POINTED)
    at = 1 + torch.arange(_NUM_SIGNS) * (len(spectrum) - 2) // _NUM_SIGNS
    return spectrum[at].real - spectrum[at].imag, float(size)


@lru_cache(maxsize=1)
def _random_signs() -> torch.Tensor:
    # Its own generator: the script's random streams must stay as they are.
    return torch.randint(2, (_MAX_POINTED,), generator=torch.Generator().manual_seed(0)).float() * 2 - 1
