"""What the commands promise."""
