"""Snapshots; `pytest --regen` rewrites them."""
