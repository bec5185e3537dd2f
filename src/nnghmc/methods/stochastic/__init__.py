"""Methods that use mini-batches of the data, one per file, for comparison."""
