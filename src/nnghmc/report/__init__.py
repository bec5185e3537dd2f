"""The report of a run: one HTML page that needs nothing else."""

from nnghmc.report.contents import Contents, Fit, HeldOutGradients, Phase, Probe
from nnghmc.report.page import write_report
from nnghmc.report.stored import contents_of_store

__all__ = [
    "Contents",
    "Fit",
    "HeldOutGradients",
    "Phase",
    "Probe",
    "contents_of_store",
    "write_report",
]
