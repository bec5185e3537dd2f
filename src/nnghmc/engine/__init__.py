"""The engine that makes the draws of all chains: chunks, histories, sessions, cost and progress."""
