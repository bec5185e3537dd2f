"""Fixtures: targets with known moments, their gradients, and a small regression."""

import jax
import numpy as np
import pytest

from nnghmc import Posterior
from support import (
    KNOWN_TARGETS,
    logistic_data,
    logistic_log_likelihood,
    logistic_log_prior,
    random_gradient,
)


@pytest.fixture(params=KNOWN_TARGETS)
def known_target(request):
    return KNOWN_TARGETS[request.param]


@pytest.fixture(params=["true gradient", "random network"])
def target_and_gradient(request, known_target):
    """Each known target with its true gradient, and with one that has learned nothing."""
    if request.param == "true gradient":
        return known_target, jax.grad(known_target.potential)
    return known_target, random_gradient(known_target)


@pytest.fixture
def logistic():
    return Posterior(
        logistic_log_likelihood, logistic_log_prior, logistic_data(), {"beta": np.zeros(3)}
    )
