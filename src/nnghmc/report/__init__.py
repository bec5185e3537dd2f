"""The report of a run: one HTML page that needs nothing else."""

from nnghmc.report.contents import Contents, Fit, HeldOutGradients, Phase, Probe
from nnghmc.report.page import write_report

__all__ = ["Contents", "Fit", "HeldOutGradients", "Phase", "Probe", "write_report"]
