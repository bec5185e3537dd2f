"""A model written elsewhere becomes a Posterior: one file a front end."""

from nnghmc.frontends.callable import from_callable

__all__ = ["from_callable"]
