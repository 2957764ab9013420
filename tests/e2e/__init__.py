"""The real thing: real scripts in real processes."""
