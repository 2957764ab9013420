"""What a training step would take on hardware that is not there: `forecast(workload, target="RTX 4090")`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.predict.catalogue import Device, devices, resolve
    from hotlap.predict.precision import Precision
    from hotlap.predict.prediction import forecast
    from hotlap.predict.workload import Kind, Operator, Stage, Workload

__all__ = ["Device", "Kind", "Operator", "Precision", "Stage", "Workload", "devices", "forecast", "resolve"]

# NumPy is imported only when a forecast is made, torch only by `hotlap.predict.trace`.
_HOMES = {
    "Device": "catalogue", "devices": "catalogue", "resolve": "catalogue", "Precision": "precision",
    "forecast": "prediction", "Kind": "workload", "Operator": "workload", "Stage": "workload", "Workload": "workload",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
