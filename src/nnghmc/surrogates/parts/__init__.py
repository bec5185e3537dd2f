"""Building blocks that gradient models share."""
