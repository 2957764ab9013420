"""What comes before the first random transform, kept; the rest runs for each item."""
