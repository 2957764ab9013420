"""One cache of items for the process and for workers: what is kept, where, who fills it, and how it lies on disk."""
