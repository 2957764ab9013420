"""What this machine can do at best, and what is wrong with it."""

from hotlap.machine.look import look

__all__ = ["look"]
