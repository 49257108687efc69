"""A functional environment in JAX: climb a slope, neither too fast nor off its edge."""

import jax
import jax.numpy as jnp

from holdfast.envs.functional.states import EnvState


class Slope:
    """Be high up; a thrust above 0.5 and a height above 0.3 cost, and at 1.0 it is over."""

    action_size = 1  # actions lie in [-1, 1]
    time_limit = 20  # episodes are cut after so many steps

    def __init__(self, pull=0.0):
        self.pull = pull

    def reset(self, key):
        height = jax.random.uniform(key, (), minval=-0.1, maxval=0.1)
        return self.state(height, jnp.zeros(1))

    def step(self, state, action):
        return self.state(state.inner + 0.1 * action[0] - self.pull, action)

    def state(self, height, action):
        costs = {"cost_thrust": jnp.abs(action[0]) > 0.5, "cost_high": height > 0.3}
        obs = jnp.stack([height, height**2])
        return EnvState(height, obs, reward=height, done=height > 1.0, info=costs)


def too_high(obs, action, next_obs):
    """A cost function of one's own, for --cost slope.py:too_high."""
    return jnp.maximum(next_obs[0], 0.0)
