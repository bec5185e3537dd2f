import pytensor
import pytest


@pytest.fixture(autouse=True)
def interpreted_pytensor():
    """PyMC's own functions run for moments here; compiling them with C takes many seconds."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
