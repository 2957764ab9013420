"""One file a profiler: what else is looked at while the script trains. `known` has them by name."""
