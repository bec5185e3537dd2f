"""The report of a run: one HTML page that needs nothing else."""

from nnghmc.run.report.contents import Contents, Fit, HeldOutGradients, Phase, Probe
from nnghmc.run.report.page import page_of, write_page, write_report

__all__ = [
    "Contents",
    "Fit",
    "HeldOutGradients",
    "Phase",
    "Probe",
    "page_of",
    "write_page",
    "write_report",
]
