"""The result of one call of `sample`: draws, events, notes, comparisons and figures."""
