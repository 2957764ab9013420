"""Batches gathered from memory, of the machine or of a device, in place of items that are collated."""
