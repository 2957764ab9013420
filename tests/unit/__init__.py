"""Fast tests that mirror src/ file by file."""
