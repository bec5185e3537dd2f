"""The true-gradient phase: what happens before anything is learned."""

from nnghmc.warmup.adaptation import Adaptation
from nnghmc.warmup.bulk import Bulk, find_bulk
from nnghmc.warmup.collect import collect
from nnghmc.warmup.nuts import warm_up_nuts
from nnghmc.warmup.starts import spread_starts, start_chains

__all__ = [
    "Adaptation",
    "Bulk",
    "collect",
    "find_bulk",
    "spread_starts",
    "start_chains",
    "warm_up_nuts",
]
