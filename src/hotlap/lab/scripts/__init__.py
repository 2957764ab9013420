"""Trainings as people write them, which the lab runs; nothing imports them."""
