"""Every block of code in README and docs is run, or says why it cannot be."""
