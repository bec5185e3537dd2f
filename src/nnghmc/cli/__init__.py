"""The command line, which calls the public functions."""
