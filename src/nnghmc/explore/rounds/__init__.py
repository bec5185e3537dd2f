"""Rounds on the surrogate: draw from it, ask the truth there, and learn again."""
