"""A picture of kept bytes, a PIL image to all who look: its crops, resizes and flips are done as one, natively.

Shape letters: H rows, W columns, C channels.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, final

import numpy as np
from PIL import Image

from hotlap.data.item.codec import picture
from hotlap.small.native import core

_BILINEAR, _BICUBIC = 2, 3
_FLIPS = (0, 1)
"""`Image.Transpose.FLIP_LEFT_RIGHT` and `FLIP_TOP_BOTTOM`."""


@final
class LazyPicture(Image.Image):
    """Copies and parts of it share the bytes, which nobody changes: who wants to change them gets an image of PIL's."""

    _image: Any = None
    """PIL's own, from when it was asked for."""

    def __init__(
        self, pixels: Any, info: dict[Any, Any], *, box: Any = None, size: Any = None, resample: int = 0, flips: int = 0
    ) -> None:
        """The part `box` of (H, W, C) `pixels`, then resized, then turned over (bit 0: left to right, 1: top to
        bottom)."""
        super().__init__()
        self.info = info
        self._take(pixels, box or (0, 0, pixels.shape[1], pixels.shape[0]), resample, flips)
        self._mode = "L" if pixels.shape[2] == 1 else "RGB"
        self._size = size or (self._box[2] - self._box[0], self._box[3] - self._box[1])

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Image.Image

    @property
    def im(self) -> Any:
        """The image in C, as PIL's own methods ask for it."""
        if self._image is None:
            self._image = Image.frombytes(self._mode, self._size, self._bytes()).im
        return self._image

    @im.setter
    def im(self, image: Any) -> None:
        self._image = image

    _im = im
    """Its name inside of PIL, since 11."""

    def crop(self, box: Any = None) -> Any:
        """As PIL's."""
        left, top, right, bottom = map(round, box or (0, 0, *self._size))
        inside = 0 <= left < right <= self._size[0] and 0 <= top < bottom <= self._size[1]
        if self._image is not None or not inside:
            return super().crop(box)
        if self._is_pending():
            render([self])
        x, y = self._box[:2]
        return LazyPicture(self._pixels, dict(self.info), box=(x + left, y + top, x + right, y + bottom))

    def resize(self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None) -> Any:
        """As PIL's."""
        resample = _BICUBIC if resample is None else resample
        usual = resample in (_BILINEAR, _BICUBIC) and box is None and reducing_gap is None
        if self._image is not None or not usual or any(type(length) is not int or length < 1 for length in size):
            return super().resize(size, resample, box, reducing_gap)
        if self._is_pending():
            render([self])
        return LazyPicture(self._pixels, dict(self.info), box=self._box, size=tuple(size), resample=int(resample))

    def transpose(self, method: Any) -> Any:
        """As PIL's."""
        return super().transpose(method) if self._image is not None or method not in _FLIPS else self._like(1 << method)

    def copy(self) -> Any:
        """As PIL's."""
        return super().copy() if self._image is not None else self._like(0)

    def tobytes(self, encoder_name: str = "raw", *args: Any) -> bytes:
        """As PIL's."""
        if self._image is not None or encoder_name != "raw" or args:
            return super().tobytes(encoder_name, *args)
        made: bytes = self._bytes().tobytes()
        return made

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._image is not None:
            return super().__array_interface__
        pixels = self._bytes()
        shape = pixels.shape if self._mode == "RGB" else pixels.shape[:2]
        return {"shape": shape, "typestr": "|u1", "version": 3, "data": pixels}

    def __reduce__(self) -> Any:
        return picture, (self._mode, self._size, self.tobytes(), None, self.info)

    def _like(self, flips: int) -> "LazyPicture":
        return LazyPicture(self._pixels, dict(self.info), box=self._box, size=self._size, resample=self._resample,
                           flips=self._flips ^ flips)  # fmt: skip

    def _is_pending(self) -> bool:
        """It is more than a part of its bytes: a resize of what is turned over is not the same turned over."""
        return bool(self._resample or self._flips)

    def _take(self, pixels: Any, box: Any, resample: int = 0, flips: int = 0) -> None:
        self._pixels, self._box, self._resample, self._flips = pixels, box, resample, flips

    def _bytes(self) -> Any:
        """(H, W, C), one after the other, not to be written to."""
        if self._is_pending():
            render([self])
        left, top, right, bottom = self._box
        pixels = np.ascontiguousarray(self._pixels[top:bottom, left:right])
        pixels.flags.writeable = False
        return pixels


def lazy_picture(mode: str, size: tuple[int, int], data: Any, info: dict[Any, Any]) -> Any:
    """The image of these bytes; None where it cannot be a lazy one."""
    if mode not in ("L", "RGB") or min(size) < 1 or _columns_first() is None:
        return None
    return LazyPicture(np.frombuffer(data, np.uint8).reshape(size[1], size[0], -1), info)


def render(values: Iterable[Any], *, num_threads: int = 1, columns_first: bool | None = None) -> None:
    """Do what is pending for the lazy pictures among these values.

    Arguments:
        num_threads: that do it, each a picture at a time.
        columns_first: see `_columns_first`; None: as it is with this Pillow.
    """
    columns_first = _columns_first() if columns_first is None else columns_first
    pictures = [one for one in values if type(one) is LazyPicture and one._image is None and one._is_pending()]
    made = [np.empty((one.height, one.width, one._pixels.shape[2]), np.uint8) for one in pictures]
    jobs = []
    for one, to in zip(pictures, made, strict=True):
        left, top, right, bottom = one._box
        fewer_columns, fewer_rows = right - left - one.width, bottom - top - one.height
        # From which difference on is not told there; it was found by trying 1,376 sizes.
        first = bool(columns_first) and fewer_rows > max(0, 2 * fewer_columns)
        turned = one._flips & 1 > 0, one._flips & 2 > 0
        address, channels = one._pixels.ctypes.data, one._pixels.shape[2]
        jobs.append((address, one._pixels.shape[1], one._box, one.size, channels, one._resample or _BILINEAR, first,
                     *turned, to.ctypes.data))  # fmt: skip
    core().module.resample(jobs, num_threads)
    for one, to in zip(pictures, made, strict=True):
        one._take(to, (0, 0, one.width, one.height))


@cache
def _columns_first() -> bool | None:
    """Whether this Pillow resizes along the columns first where these shrink more, as it does since 13
    (python-pillow/Pillow#9549); None where the native core is missing, or does not do as Pillow does."""
    if not hasattr(core().module, "resample"):
        return None
    return next((first for first in (True, False) if all(_is_as_pillow(*one, first) for one in _TRIED)), None)


_TRIED = (
    ((67, 81), (5, 9, 60, 80), (32, 32), _BILINEAR),
    ((67, 81), (5, 9, 60, 80), (32, 32), _BICUBIC),
    ((90, 40), (0, 3, 77, 33), (50, 64), _BILINEAR),
    ((40, 90), (1, 0, 30, 88), (47, 42), _BICUBIC),
    ((33, 35), (2, 2, 20, 30), (18, 28), _BILINEAR),
    ((300, 20), (0, 0, 300, 20), (7, 5), _BILINEAR),
    ((20, 300), (0, 0, 20, 300), (7, 5), _BICUBIC),
)
"""(size, box, size after it, filter): shrunk and enlarged, in one way and in both, and not at all."""


def _is_as_pillow(size: Any, box: Any, after: Any, resample: Any, columns_first: bool) -> bool:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    expected = Image.fromarray(pixels).crop(box).resize(after, resample).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    ours = LazyPicture(pixels, {}, box=box, size=after, resample=resample, flips=1)
    render([ours], columns_first=columns_first)
    return bool(ours.mode == expected.mode and ours.size == expected.size and ours.tobytes() == expected.tobytes())
