# Named as a module of Python's, which hotlap needs.
MINE = True
