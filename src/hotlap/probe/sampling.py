"""A tensor, however large -> some of its elements, its direction, or how its rows are distributed, by the same rule in
every run."""

from collections.abc import Iterator, Sequence
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

# Sums of each row with fixed random signs, and of how many of them the square is looked at as well: noise that is
# weaker, or the same for all rows of a batch, shows there.
_NUM_SUMS, _NUM_SQUARES = 8, 4
# Elements are told by the mean of their cosine and sine, at scales from a tenth of the usual size of inputs to four
# times that: a quarter of an element, and four times as much each time. They are smooth: what is rounded to bfloat16
# hardly changes them.
_FIRST_SCALE, _NUM_SCALES = 0.25, 4

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
    return sampled_columns(rows.reshape(len(rows), -1), _MAX_COLUMNS)


def sampled_columns(rows: torch.Tensor, num: int) -> torch.Tensor:
    """(rows, min(columns, num),) at fixed places."""
    return rows if rows.shape[1] <= num else rows[:, _places(rows.shape[1], num).to(rows.device)]


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
    spectrum = torch.fft.rfft(flat / size * _signs(0, _MAX_POINTED)[: len(flat)], n=_MAX_POINTED)
    at = 1 + torch.arange(_NUM_SIGNS) * (len(spectrum) - 2) // _NUM_SIGNS
    return spectrum[at].real - spectrum[at].imag, float(size)


@lru_cache(maxsize=2)
def _signs(seed: int, *shape: int) -> torch.Tensor:
    # Its own generator: the script's random streams must stay as they are.
    return torch.randint(2, shape, generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


class Content:
    """What models are given to train on -> a few numbers a step that tell how it is distributed, whatever was drawn, in
    any order and any number of parts."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | None = None
        self._num_rows = 0

    def add(self, data: Sequence[torch.Tensor]) -> None:
        """`data`: plain tensors that a model was given, with as many rows each (`data_of`)."""
        if any(one.is_complex() for one in data):
            return
        found = torch.cat([_of_rows(sampled_rows(one)) for one in data]) * len(data[0])
        if self._sum is not None:  # what one model is given beside the first tensor another one need not be
            width = min(len(found), len(self._sum))
            found = self._sum[:width] + found[:width]
        self._sum = found
        self._num_rows += len(data[0])

    def take(self) -> tuple[float, ...] | None:
        """Means over the rows since the last call; None if there were none."""
        whole, num_rows = self._sum, self._num_rows
        self._sum, self._num_rows = None, 0
        return None if whole is None else tuple(float(f"{value:.9g}") for value in (whole / num_rows).tolist())


class Between:
    """The two batches that models are given within a step -> how far they are apart, told as `Content` does."""

    def __init__(self) -> None:
        self._seen: list[torch.Tensor] = []
        self._models: set[int] = set()

    def add(self, model: object, data: torch.Tensor) -> None:
        """`data`: a plain tensor, rows first."""
        rows = sampled_rows(data)
        self._models.add(id(model))
        if not any(torch.equal(rows, one) for one in self._seen):
            self._seen.append(rows.clone())

    def take(self) -> tuple[float, ...] | None:
        """Since the last call; None if there were not two of one shape, nor one for several models."""
        seen = self._seen * 2 if len(self._models) > len(self._seen) == 1 else self._seen
        self._seen, self._models = [], set()
        found = Content()
        if len(seen) == 2 and seen[0].shape == seen[1].shape:
            found.add([(seen[0].double() - seen[1].double()).abs()])
        return found.take()


def _of_rows(rows: torch.Tensor) -> torch.Tensor:
    # Numbers of a token or of a pixel count have more digits than their cosine could tell in single precision.
    rows = rows.to("cpu", torch.float32 if rows.is_floating_point() and rows.element_size() <= 4 else torch.float64)
    return torch.stack([torch.as_tensor(part, dtype=torch.float64) for part in _features(rows)])


def _features(rows: torch.Tensor) -> Sequence[torch.Tensor]:
    """Means over rows."""
    real = ~_padding(rows)
    rows = torch.where(real, rows, 0.0)
    sums = (rows @ _signs(1, _MAX_COLUMNS, _NUM_SUMS)[: rows.shape[1]].to(rows.dtype)).double()
    num_zero = (rows == 0).sum()
    num_filled = (rows.numel() - num_zero).clamp(min=1)
    # Of a zero the cosine is 1, the sine 0.
    waves = [(cos - num_zero, sin) for cos, sin in _wave_sums(rows)]
    squares = (sums[:, :_NUM_SQUARES] ** 2).mean(0)
    length = real.sum(1, dtype=torch.float64).mean()
    return [length, *sums.mean(0), *squares, *(wave / num_filled for both in waves for wave in both)]


def _wave_sums(values: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Of cosine and sine at each scale. Only the first are computed as such, the others by doubling the angle twice."""
    values = values * _FIRST_SCALE
    cos, sin = values.cos(), values.sin_()
    for scale in range(_NUM_SCALES):
        for _ in range(2 if scale else 0):
            sin, cos = cos.mul_(sin).mul_(2), sin.square_().mul_(-2).add_(1)
        yield cos.sum(dtype=torch.float64), sin.sum(dtype=torch.float64)


def _padding(rows: torch.Tensor) -> torch.Tensor:
    """(rows, columns) true at the end of each where it is padded, with zeros or some other number: as long as the
    longest sample asks for. One element that is not 0 is none."""
    last, num_columns = rows[:, -1:], rows.shape[1]
    differs = (rows != last).flip(1)
    length = torch.where(differs.any(1), differs.view(torch.uint8).argmax(1), num_columns)[:, None]
    padded = torch.where((length > 1) | (last == 0), length, 0)
    return torch.arange(num_columns) >= num_columns - padded
