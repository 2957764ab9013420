"""Whether items may be kept: random state, changes of a data set, and what a forked copy of the process finds out."""
