"""What the catalogue says of the GPU of a trace: its name, and what it reaches at best in products of matrices."""

from hotlap.errors import UserError
from hotlap.predict.catalogue import devices, facts, resolve
from hotlap.predict.precision import BY_DTYPE, Precision, matrix_rate

# torch sees each of their two dies as a device.
_DIES = {"Instinct MI250": 2, "Instinct MI250X": 2}


def matrix_peak(device: str, dtype: str, *, on_matrix_cores: bool) -> float | None:
    """Operations a second of numbers of this type, in torch's words; None for a GPU or a type that is not known, and
    where a name fits boards that differ.

    Arguments:
        on_matrix_cores: of float32, whether the kernels ran there (TF32).
    """
    if dtype != "float32" and dtype not in BY_DTYPE:
        return None
    try:
        match = resolve(device)
    except UserError:
        return None
    if match.assumption is not None:
        return None
    precision = BY_DTYPE.get(dtype, Precision.TF32 if on_matrix_cores else Precision.IEEE)
    peak = matrix_rate(match.device, precision, tf32=precision is Precision.TF32)
    return peak / _DIES.get(match.device.name, 1)


# Of its memory a driver leaves programs so much: error correction takes up to a sixteenth, its own tables some more.
_USABLE = 0.9


def known_name(name: str, *, units: int, memory: float, capability: tuple[int, int]) -> str:
    """`name` where it fits one device alone; else the name of the GPU with such figures, if there is one.

    Arguments:
        name: as the driver gives it.
        units: streaming multiprocessors.
        memory: bytes that programs can have.
        capability: CUDA's major and minor, or what ROCm gives in its place.
    """
    try:
        if resolve(name).assumption is None:
            return name
    except UserError:
        pass
    told = ".".join(map(str, capability))
    families = {row["family"] for row in facts("families.csv") if told in row["capability"].split()}
    found = [
        one
        for one in devices()
        if one.family in families and one.units == units and _USABLE * one.memory <= memory <= one.memory
    ]
    alike = len({(one.fp32, one.tensor) for one in found}) == 1
    return found[0].name if alike else name
