"""Everything that depends on the machine: precision, compilation, memory, files and text.

It does not depend on sampling.
"""
