"""Formats numbers and text for people to read."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_words(seconds: float) -> str:
    """Return a time with two significant digits and a unit."""
    if seconds >= 100:
        return f"{seconds / 60:.0f} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        number = seconds / size
        if number >= 1:
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.2g} {unit}"
    return "less than 1 µs"


def printable(text: str) -> str:
    """Return text without control characters, which could steer a terminal."""
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "�" for mark in text)
