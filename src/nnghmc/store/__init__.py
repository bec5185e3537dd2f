"""Stored runs: the folder of a run on disk, with its journal, its draws and its arguments."""
