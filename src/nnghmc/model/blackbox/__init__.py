"""Functions outside JAX as posteriors: who calls them, and how compiled code calls back."""
