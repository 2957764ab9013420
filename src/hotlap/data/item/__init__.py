"""Items and batches: taken apart, compared to the last bit, and as bytes."""
