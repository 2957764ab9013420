"""What the measuring child hands to its parent."""

from dataclasses import dataclass

from hotlap.record import Figure, TorchBuild, UnderLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Only a process with torch in it can find this out."""

    torch: TorchBuild
    figures: tuple[Figure, ...] = ()
    under_load: tuple[UnderLoad, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be measured, and why: one sentence each."""
