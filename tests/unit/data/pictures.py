"""Pictures of bytes, and transforms that do what torchvision's do under the names that torchvision gives them.

What they do is taken from torchvision 0.28.0 (transforms/functional.py, transforms/_functional_tensor.py,
transforms/v2/functional/_misc.py), for tests that must run without it.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import Dataset

from tests.unit.data.pipelines import Compose

Named = namedtuple("Named", ["picture", "label"])


class ToTensor:
    __module__ = "torchvision.transforms.transforms"

    def __call__(self, picture: Any) -> torch.Tensor:
        if not isinstance(picture, np.ndarray):
            picture = np.array(picture)
        if picture.ndim == 2:
            picture = picture[:, :, None]
        made = torch.from_numpy(picture.transpose((2, 0, 1))).contiguous()
        return made.to(dtype=torch.get_default_dtype()).div(255) if made.dtype == torch.uint8 else made


class Normalize(torch.nn.Module):
    __module__ = "torchvision.transforms.transforms"

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        made = picture.clone()
        mean, std = (torch.as_tensor(values, dtype=made.dtype).view(-1, 1, 1) for values in (self.mean, self.std))
        if (std == 0).any():
            raise ValueError("std evaluated to zero")
        return made.sub_(mean).div_(std)


class ConvertImageDtype(torch.nn.Module):
    """The first version: divides."""

    __module__ = "torchvision.transforms.transforms"

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return picture.to(self.dtype) / 255.0


class ToDtype(torch.nn.Module):
    """The second version: multiplies."""

    __module__ = "torchvision.transforms.v2._misc"

    def __init__(self, dtype: Any, *, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        made = picture.to(self.dtype)
        return made.mul_(1.0 / 255) if self.scale else made


class ToImage(torch.nn.Module):
    __module__ = "torchvision.transforms.v2._type_conversion"

    def forward(self, picture: Any) -> torch.Tensor:
        if isinstance(picture, torch.Tensor):
            return picture
        return torch.from_numpy(np.atleast_3d(np.array(picture))).permute((2, 0, 1)).contiguous()


class PILToTensor:
    """As torchvision's: a view, whose channels come last in memory."""

    __module__ = "torchvision.transforms.transforms"

    def __call__(self, picture: Any) -> torch.Tensor:
        return torch.from_numpy(np.atleast_3d(np.array(picture))).permute((2, 0, 1))


class ResizedCrop:
    """Draws, and returns a picture: a part of it, of another size, turned over or not."""

    def __call__(self, picture: Any) -> Any:
        left, top, mirrored = (int(torch.randint(0, 2, (1,))) for _ in range(3))
        part = picture.crop((left, top, left + 5, top + 7)).resize((6, 4), Image.Resampling.BILINEAR)
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else part


class PaddedCrop(torch.nn.Module):
    """As torchvision's `RandomCrop` of pictures."""

    __module__ = "torchvision.transforms.transforms"

    def __init__(self, size: int, padding: Any, *, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.size, self.padding, self.fill, self.padding_mode = (size, size), padding, fill, padding_mode
        self.pad_if_needed = False

    @staticmethod
    def get_params(picture: Any, size: tuple[int, int]) -> tuple[int, int, int, int]:
        width, height = picture.size
        top = int(torch.randint(0, height - size[0] + 1, size=(1,)))
        return top, int(torch.randint(0, width - size[1] + 1, size=(1,))), *size

    def forward(self, picture: Any) -> Any:
        picture = ImageOps.expand(picture, border=self.padding, fill=self.fill)
        top, left, height, width = self.get_params(picture, self.size)
        return picture.crop((left, top, left + width, top + height))


PaddedCrop.__name__ = "RandomCrop"


class Crop:
    """Draws from torch's generator, twice, as torchvision's does."""

    def __call__(self, picture: Any) -> Any:
        top, left = (int(torch.randint(0, 3, (1,))) for _ in range(2))
        return picture[top : top + 6, left : left + 5]


class Bytes(Dataset[Any]):
    """Arrays of bytes, (H, W, C) or (H, W), through a transform."""

    def __init__(
        self,
        transform: Any,
        *,
        num_channels: int = 3,
        make: Callable[[Any], Any] = lambda picture: picture,
        build: Callable[[Any, int], Any] = lambda picture, label: (picture, label),
    ) -> None:
        self.transform = transform
        self.num_channels = num_channels
        self.make = make
        self.build = build

    def __len__(self) -> int:
        return 21

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        picture = np.random.default_rng(int(index)).integers(0, 256, (9, 8, self.num_channels), dtype=np.uint8)
        picture = self.make(picture[:, :, 0] if self.num_channels == 1 else picture)
        return self.build(self.transform(picture), int(index) % 7)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def usual(**settings: Any) -> Bytes:
    """Random crop, `ToTensor`, `Normalize`."""
    return Bytes(Compose([Crop(), ToTensor(), Normalize(MEAN, STD)]), **settings)


def chw(picture: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(np.atleast_3d(picture).transpose(2, 0, 1)))
