"""A folder that holds a packed data set: its files, and what stands in them.

The table is what Hugging Face's `datasets` writes with `save_to_disk` (an Arrow stream and two small JSON files), so
that `datasets.load_from_disk` opens it; `hotlap.json` says what the columns mean as items.
https://huggingface.co/docs/datasets/about_arrow, https://arrow.apache.org/docs/format/Columnar.html
"""

import json
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hotlap.data.pack_layout import Layout
from hotlap.errors import RecordError, UserError

TABLE = "data-00000-of-00001.arrow"
MANIFEST = "hotlap.json"

OTHERS = "hotlap_other"
"""Column of the items that do not fit the layout, as bytes of `pack_values`; empty for all others."""
CHECKSUMS = "hotlap_crc32"
"""Column with a checksum of the rest of the row."""

FORMAT = 1

INSTALL = "pip install 'hotlap[pack]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `hotlap.json` says."""

    format: int
    """Of this folder; another number is another way of writing."""
    byteorder: str
    dataset: str
    """What was packed, as the user named it."""
    num_items: int
    table_bytes: int
    """Size of the table's file."""
    layout: Layout


def arrow() -> Any:
    """pyarrow.

    Raises:
        UserError: it is not installed.
    """
    try:
        import_module("pyarrow.ipc")
        return import_module("pyarrow")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise UserError(f"Packed data sets need pyarrow, which is not installed here: {INSTALL}") from None


def seed_of(layout: Layout) -> int:
    """Where the checksums of rows begin: rows read by another layout than they were written by are all wrong."""
    return zlib.crc32(msgspec.json.encode(layout))


def checksum(seed: int, *, number: int, raws: Iterable[Any]) -> int:
    """Of row `number`; CRC-32 reads about 3 GB/s."""
    found = zlib.crc32(number.to_bytes(8, "little"), seed)
    for raw in raws:
        found = zlib.crc32(raw, found)
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """`hotlap.json`, and the two files without which `datasets.load_from_disk` does not know the folder."""
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    state: dict[str, Any] = {
        "_data_files": [{"filename": TABLE}],
        "_fingerprint": f"{seed_of(manifest.layout):08x}{manifest.table_bytes:016x}",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, content in (("state.json", state), ("dataset_info.json", {"description": manifest.dataset})):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """What the folder says of itself.

    Raises:
        UserError: it holds no packed data set.
        RecordError: it holds one that is damaged, or of another version.
    """
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        there = "is no packed data set" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {there}: `hotlap data pack DATASET --to {folder}` makes one.") from None
    except OSError as error:
        raise UserError(f"{folder / MANIFEST} cannot be read: {error.strerror}.") from None
    try:
        version = msgspec.json.decode(data).get("format")
        if version == FORMAT:
            manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, AttributeError, UnicodeDecodeError) as error:
        raise RecordError(f"{folder / MANIFEST} is damaged ({error}). {advice(folder)}") from None
    if version != FORMAT:
        raise RecordError(f"{folder} has format {version}, and this hotlap reads {FORMAT}. {advice(folder)}")
    if manifest.byteorder != sys.byteorder:
        raise RecordError(f"{folder} was written on a machine with another byte order. {advice(folder)}")
    return manifest


def advice(folder: Path) -> str:
    """What to do about a folder that cannot be used."""
    return f"Remove {folder} and pack the data set again; nothing was read from it."
