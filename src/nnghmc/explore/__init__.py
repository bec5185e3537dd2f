"""Exploration: starts, the way into the typical set, adaptation, and the tails beyond the draws."""
