"""What the tests of the report share: contents made up without sampling, and a hostile label."""

import numpy as np
from arviz_base import from_dict

from nnghmc.cost import Cost, PhaseCost
from nnghmc.report import Contents, Fit, HeldOutGradients, Phase, Probe

HOSTILE = "</td><script>alert('label')</script>"


def made_up(draws, known_energy=True, **changes):
    """Contents of these draws (chains, draws, dim), with statistics as of a sampler."""
    chains, number, dim = draws.shape
    generator = np.random.default_rng(0)
    rates = (
        generator.random((chains, number)) if known_energy else np.full((chains, number), np.nan)
    )
    stats = {
        "acceptance_rate": rates,
        "diverging": np.zeros((chains, number), bool),
        "energy": generator.normal(size=(chains, number)) if known_energy else rates,
        "n_steps": np.full((chains, number), 7),
        "step_size": np.full((chains, number), 0.1),
    }
    groups = {"posterior": {"x": draws}, "sample_stats": stats} if number else {}
    labels = [HOSTILE, *map(str, range(1, dim))]
    data = from_dict(groups, coords={"place": labels}, dims={"x": ["place"]})
    spent = PhaseCost(true_potentials=chains * number, seconds=2.0, compile_seconds=0.5)
    settled = {
        "model": "a model",
        "dim": dim,
        "chains": chains,
        "method": "standard HMC",
        "exact": True,
        "complete": True,
        "seed": 7,
        "made": "one day",
        "data": data,
        "cost": Cost(sample=spent),
    }
    return Contents(**(settled | changes))


def made_up_learned():
    """Contents of a run that was handed over to a learned gradient."""
    generator = np.random.default_rng(1)
    true = generator.normal(size=(50, 3))
    gradients = HeldOutGradients(
        ("a", "b", HOSTILE), true, true + 0.1 * generator.normal(size=(50, 3))
    )
    losses = np.exp(-np.arange(20.0))
    return made_up(
        generator.normal(size=(2, 100, 3)),
        method="NNgHMC",
        story=("after 20 draws: handed over",),
        fit=Fit(("learned from 450 points",), losses, 2 * losses, gradients),
        phases=(Phase("collect", 20), Phase("kept", 80)),
        probes=(Probe(20, 0.7),),
    )
