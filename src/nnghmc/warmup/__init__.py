"""The true-gradient phase: what happens before anything is learned."""

from nnghmc.warmup.collect import collect
from nnghmc.warmup.starts import start_chains

__all__ = ["collect", "start_chains"]
