"""Gradient models, one per file."""
