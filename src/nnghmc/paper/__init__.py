"""The paper's targets and experiments, on the public API alone."""
