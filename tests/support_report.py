"""What the tests of the report share: contents made up without sampling, and a hostile label."""

import numpy as np

from nnghmc import Estimate
from nnghmc.engine.cost import Cost, PhaseCost
from nnghmc.run.report import Contents, Fit, HeldOutGradients, Phase, Probe

LEARNING_PAYS = Estimate(
    chains=2,
    draws=40,
    gradient_seconds=1.0,
    nuts_seconds=1e6,
    learned_seconds=1e3,
    potential_seconds=0.5,
    learned_step_seconds=1e-3,
)
HOSTILE = "</td><script>alert('label')</script>"


def made_up_stats(chains, number, known_energy=True):
    """Statistics as of a sampler."""
    generator = np.random.default_rng(0)
    shape = (chains, number)
    rates = generator.random(shape) if known_energy else np.full(shape, np.nan)
    return {
        "acceptance_rate": rates,
        "diverging": np.zeros(shape, bool),
        "energy": generator.normal(size=shape) if known_energy else rates,
        "n_steps": np.full(shape, 7),
        "step_size": np.full(shape, 0.1),
    }


def made_up(draws, known_energy=True, **changes):
    """Contents of these draws (chains, draws, dim), with statistics as of a sampler."""
    chains, number, dim = draws.shape
    labels = [HOSTILE, *map(str, range(1, dim))]
    scalars = {f"x[{label}]": draws[..., place] for place, label in enumerate(labels)}
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
        "cost": Cost(sample=spent),
        "scalars": scalars if number else {},
        "stats": made_up_stats(chains, number, known_energy) if number else {},
        "phases": (Phase("kept", number),) if number else (),
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
        generator.normal(size=(2, 80, 3)),
        method="NNgHMC",
        story=("after 20 draws: handed over",),
        fit=Fit(("learned from 450 points",), losses, 2 * losses, gradients),
        warmup_stats=made_up_stats(2, 20),
        phases=(Phase("collect", 20), Phase("kept", 80)),
        probes=(Probe(20, 0.7),),
    )
