"""Edits of source files, by example: `NAME.in.py` becomes `NAME.out.py`."""
