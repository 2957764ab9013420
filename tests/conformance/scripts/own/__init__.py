"""Scripts with what one lever alone is for: its name is the file's."""
