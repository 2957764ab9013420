"""What NVIDIA's cards can do, by the words of the names that their driver gives."""

from hotlap.record import Run

# With tensor cores for float16 only: Volta and Turing (compute capability 7.0 and 7.5, CUDA C++ Programming Guide).
_FLOAT16_ONLY = ("V100", "TITAN V", "TITAN RTX", "T4", "2060", "2070", "2080", "RTX 3000", "RTX 4000", "RTX 5000",
                 "RTX 6000", "RTX 8000")  # fmt: skip
# Before those, and GTX 16: no tensor cores at all.
_NONE = ("P100", "P40", "P4", "K80", "M60", "TITAN", "GTX")

# Later cards that have the number of an earlier one.
_LATER = ("Ada Generation", "PRO")


def why_not_cuda(run: Run, what: str) -> str | None:
    """`what`, and where the model is instead of on CUDA; None where it is there, or on ROCm, which has that name."""
    if run.device == "cpu":
        return f"{what}; the model is on the CPU."
    return None if run.device_type in (None, "cuda") else f"{what}; the model is on {run.device_type}."


def is_before_ampere(name: str) -> bool:
    """It has neither bfloat16 nor TF32. A name that is not known is that of a newer card."""
    return _has_word(name, (*_FLOAT16_ONLY, *_NONE))


def has_float16_alone(name: str) -> bool:
    """It has tensor cores for float16, and none for bfloat16."""
    return _has_word(name, _FLOAT16_ONLY)


def _has_word(name: str, words: tuple[str, ...]) -> bool:
    spaced = name.replace("-", " ")
    if any(part in spaced for part in _LATER):
        return False
    return any(f" {part} " in f" {spaced} " for part in words)
