"""NUTS, by BlackJAX, in the words of this package: for posteriors whose gradient is cheap."""

import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc import hmc as blackjax_hmc
from blackjax.mcmc import nuts as blackjax_nuts
from blackjax.mcmc.metrics import MetricTypes
from jaxtyping import Array, PRNGKeyArray

from nnghmc.kernels.hmc import DIVERGENCE_THRESHOLD, HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field, Path, leapfrog
from nnghmc.kernels.tuning import Jittered

MOST_DOUBLINGS = 10


def nuts(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
) -> SamplingAlgorithm:
    """The no-U-turn sampler; it finds the number of steps itself, and ignores the one given.

    It always moves by a multinomial choice along the trajectory: there is no acceptance, and what
    stands in its place is the mean over the trajectory, as everywhere.
    """
    kernel = blackjax_nuts.build_kernel(
        lambda _, kinetic_energy: leapfrog(potential_and_gradient, kinetic_energy),
        int(DIVERGENCE_THRESHOLD),
    )

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return HMCState(position, *potential_and_gradient(position))

    def step(rng_key: PRNGKeyArray, state: HMCState) -> tuple[HMCState, HMCInfo]:
        start = blackjax_hmc.HMCState(state.position, -state.potential, -state.gradient)
        end, found = kernel(rng_key, start, None, step_size, inverse_mass_matrix, MOST_DOUBLINGS)
        unknown = jnp.asarray(jnp.nan, state.position.dtype)
        info = HMCInfo(
            acceptance_rate=found.acceptance_rate,
            is_accepted=jnp.any(end.position != state.position),
            is_divergent=found.is_divergent,
            is_nonfinite=jnp.asarray(False),
            energy=found.energy,
            energy_error=unknown,
            proposed_energy_error=unknown,
            step_size=jnp.asarray(step_size, state.position.dtype),
            num_integration_steps=jnp.asarray(found.num_integration_steps, jnp.int32),
            is_insurance=jnp.asarray(False),
            path=Path.empty(0, state.position),
        )
        return HMCState(end.position, -end.logdensity, -end.logdensity_grad), info

    return SamplingAlgorithm(init, step)
