"""What a training step would take on hardware that is not there: `forecast(workload, target="RTX 4090")`."""

from hotlap.predict.catalogue import Device, devices, resolve
from hotlap.predict.precision import Precision
from hotlap.predict.prediction import forecast
from hotlap.predict.workload import Kind, Operator, Workload

# Torch is imported by `hotlap.predict.trace` only.
__all__ = ["Device", "Kind", "Operator", "Precision", "Workload", "devices", "forecast", "resolve"]
