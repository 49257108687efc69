# SPDX-License-Identifier: Apache-2.0
"""One healthy environment yields nothing; each of its faulty twins yields exactly its fault."""

import io
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from holdfast.envs.check import Finding, check_env, print_findings
from holdfast.envs.make import make_env
from holdfast.envs.probe import PROBES, ProbeEnv


class Healthy(gym.Env):
    """A point on a line that pays for its distance from 0."""

    observation_space = spaces.Box(-30.0, 30.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.normal(), 0.0, 0
        return self.see(), {}

    def step(self, action):
        self.v = 0.5 * self.v + float(action[0]) + 0.1 * self.np_random.normal()
        self.x, self.t = self.x + self.v, self.t + 1
        terminated, truncated = self.end()
        return self.see(), self.reward(), terminated, truncated, self.info()

    def see(self):
        return np.array([self.x, self.v], np.float32)

    def reward(self):
        return -self.v

    def end(self):
        return bool(abs(self.x) > 20), bool(self.t >= 30)

    def info(self):
        return {"cost": abs(self.x)}


def twin(**changes):
    """A class that differs from Healthy in one respect."""
    return type("Faulty", (Healthy,), changes)


def box(low, high, shape=(1,), dtype=np.float32):
    return spaces.Box(np.full(shape, low, dtype), np.full(shape, high, dtype), shape, dtype)


def unsound(low, high):
    """A Box with bounds that its constructor would refuse."""
    space = box(-1.0, 1.0)
    space.low, space.high = np.array([low], np.float32), np.array([high], np.float32)
    return space


def old_reset(self):
    return Healthy.reset(self)


def bare_reset(self, *, seed=None, options=None):
    return Healthy.reset(self, seed=seed)[0]


def unseeded_reset(self, *, seed=None, options=None):
    return Healthy.reset(self)


def leaky_reset(self, *, seed=None, options=None):
    first = not hasattr(self, "v")
    _, info = Healthy.reset(self, seed=seed)
    if not first:
        self.v = 0.25
    return self.see(), info


def four_values(self, action):
    obs, reward, terminated, truncated, info = Healthy.step(self, action)
    return obs, reward, terminated or truncated, info


def breaks(self, action):
    if self.t == 9:
        raise ZeroDivisionError("at the tenth step")
    return Healthy.step(self, action)


def writes_action(self, action):
    out = Healthy.step(self, action)
    action *= 0
    return out


def six_values(self, action):
    obs, reward, terminated, truncated, info = Healthy.step(self, action)
    return obs, reward, info["cost"], terminated, truncated, {"cost_a": 0.0, "cost_b": 5.0}


def late(value, otherwise):
    """A method that returns `value(self)` until the seventh step, then `otherwise`."""
    return lambda self: otherwise if self.t == 7 else value(self)


def bad_close(self):
    raise OSError("no window")


FAULTS = {
    # spaces
    "no observation space": (twin(observation_space=None), "error", "observation space"),
    "variable size": (
        twin(observation_space=spaces.Sequence(spaces.Discrete(2))), "error", "observation space"),
    "nothing to observe": (
        twin(observation_space=box(-1, 1, (0,)), see=lambda self: np.zeros(0, np.float32)),
        "error", "observation space"),
    "NaN bound": (
        twin(observation_space=unsound(np.nan, 1.0), see=lambda self: np.zeros(1, np.float32)),
        "error", "observation space"),
    "image": (
        twin(observation_space=spaces.Box(0, 255, (4, 4, 3), np.uint8),
             see=lambda self: np.zeros((4, 4, 3), np.uint8)), "warning", "image observation"),
    "Dict action": (
        twin(action_space=spaces.Dict(a=spaces.Discrete(2))), "error", "action space"),
    "whole-number Box": (
        twin(action_space=spaces.Box(0, 3, (1,), np.int64)), "error", "action space"),
    "empty action range": (twin(action_space=unsound(1.0, 1.0)), "error", "action space"),
    "one action": (
        twin(action_space=spaces.Discrete(1),
             step=lambda self, a: Healthy.step(self, np.array([a]))), "warning", "action space"),
    "unbounded": (twin(action_space=box(-np.inf, np.inf)), "warning", "unbounded actions"),
    # interface
    "reset without seed": (twin(reset=old_reset), "error", "reset()"),
    "reset without info": (twin(reset=bare_reset), "error", "reset()"),
    "four values": (twin(step=four_values), "error", "step()"),
    "exception": (twin(step=breaks), "error", "step()"),
    "vector reward": (twin(reward=lambda self: np.ones(2)), "error", "reward type"),
    "text as reward": (twin(reward=lambda self: "good"), "error", "reward type"),
    "no info": (twin(info=lambda self: None), "error", "info type"),
    "flag as int": (twin(end=lambda self: (0, self.t >= 30)), "warning", "flag type"),
    "writes into the action": (twin(step=writes_action), "warning", "action changed"),
    "close": (twin(close=bad_close), "warning", "close"),
    # observations
    "wrong shape": (
        twin(see=lambda self: np.zeros(3, np.float32)), "error", "observation shape"),
    "wrong dtype": (twin(see=lambda self: np.array([self.x, self.v])), "note", "observation dtype"),
    "outside": (
        twin(observation_space=box(-0.1, 0.1, (2,))), "warning", "observation outside"),
    "NaN observation": (
        twin(see=late(Healthy.see, np.array([np.nan, 0], np.float32))),
        "error", "observation not finite"),
    # rewards
    "NaN reward": (twin(reward=late(Healthy.reward, np.nan)), "error", "reward not finite"),
    "huge reward": (twin(reward=lambda self: 1e5 * self.v), "warning", "reward scale"),
    "tiny reward": (twin(reward=lambda self: 1e-6 * self.v), "warning", "reward scale"),
    "no reward": (twin(reward=lambda self: 0.0), "warning", "reward scale"),
    # costs
    "no cost": (twin(info=lambda self: {}), "error", "cost"),
    "cost vanishes": (twin(info=late(Healthy.info, {})), "error", "cost"),
    "cost changes size": (
        twin(info=late(Healthy.info, {"cost": np.ones(2)})), "error", "cost"),
    "NaN cost": (twin(info=late(Healthy.info, {"cost": np.inf})), "error", "cost not finite"),
    "negative cost": (twin(info=lambda self: {"cost": self.x}), "warning", "negative cost"),
    "constant cost": (twin(info=lambda self: {"cost": 1.0}), "warning", "constant cost"),
    "never a cost": (twin(info=lambda self: {"cost": 0}), "note", "constant cost"),
    "parts and total": (
        twin(info=lambda self: {"cost": abs(self.x), "cost_a": abs(self.x), "cost_b": 1.0}),
        "warning", "cost parts"),
    "parts and sixth value": (twin(step=six_values), "warning", "cost parts"),
    # episodes
    "endless": (twin(end=lambda self: (False, False), observation_space=box(-999, 999, (2,))),
                "warning", "no time limit"),
    "time limit as terminated": (
        twin(end=lambda self: (self.t >= 30, False)), "warning", "time limit as terminated"),
    "continues after the end": (
        twin(end=lambda self: (False, self.t == 30)), "note", "step after end"),
    # seeding
    "seed ignored": (twin(reset=unseeded_reset), "error", "seed"),
    "state survives reset": (twin(reset=leaky_reset), "error", "reset"),
}  # fmt: skip


@pytest.mark.parametrize("source", [Healthy, lambda: Healthy(), Healthy()])
def test_a_healthy_environment_yields_nothing(source):
    assert check_env(source) == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_nothing_else(name):
    source, severity, check = FAULTS[name]
    found = check_env(source)
    assert [(f.severity, f.check) for f in found] == [(severity, check)], found
    assert found[0].problem.strip() and found[0].remedy.strip()


def test_findings_say_where_and_how():
    (found,) = check_env(FAULTS["NaN cost"][0])
    assert found.problem == "'cost' of step 7 is NaN or infinite."
    (found,) = check_env(FAULTS["exception"][0])
    assert "ZeroDivisionError: at the tenth step" in found.problem and "9 steps" in found.remedy
    (found,) = check_env(FAULTS["no cost"][0])
    assert found.problem == "Env 'Faulty' reports no cost."
    assert "return it in info['cost']" in found.remedy
    (found,) = check_env(twin(info=lambda self: {"cost": {"spill": 1.0}}))
    assert found.problem == "the cost of this step is not a number."
    assert found.remedy.endswith("for each constraint, instead of {'spill': 1.0}.")


def test_several_faults_come_gravest_first():
    source = twin(reward=lambda self: np.nan, see=lambda self: np.array([self.x, self.v]),
                  info=lambda self: {"cost": 1.0})  # fmt: skip
    assert [f.severity for f in check_env(source)] == ["error", "warning", "note"]


def test_constraints_and_cost_functions_are_checked_too():
    parts = twin(info=lambda self: {"cost_left": max(0.0, -self.x), "cost_right": max(0.0, self.x)})
    assert check_env(parts, constraints=("left", "right")) == []
    (found,) = check_env(parts, constraints=("left", "up"))
    assert found.check == "cost" and "it reports left, right" in found.problem
    free = twin(info=lambda self: {})
    assert check_env(free, cost=lambda obs, action, new: abs(new[0])) == []
    (found,) = check_env(free, cost=lambda obs, action, new: new[7])
    assert found.check == "cost" and "IndexError" in found.problem


def test_safety_gymnasium_counts_simultaneous_costs_once():
    info = lambda self: {"cost_a": float(self.x > 0), "cost_b": float(self.x > 1),
                         "cost_sum": float(self.x > 0)}  # fmt: skip
    assert check_env(twin(info=info)) == []


def test_a_reused_observation_buffer_is_no_fault():
    def reuse(self):
        self.buffer = getattr(self, "buffer", np.zeros(2, np.float32))
        self.buffer[:] = self.x, self.v
        return self.buffer

    moved = lambda obs, action, new: abs(new[0] - obs[0])
    assert check_env(twin(see=reuse), cost=moved) == []


def test_opening_and_shipping():
    def broken():
        raise OSError("licence expired")

    (found,) = check_env(broken)
    assert found.check == "construction" and "licence expired" in found.problem

    def lacking():
        import no_such_module_at_all  # noqa: F401

    (found,) = check_env(lacking)
    assert "no_such_module_at_all" in found.remedy and "install what it needs" in found.remedy
    lock = threading.Lock()
    (found,) = check_env(lambda: Healthy() if lock else None)
    assert (found.severity, found.check) == ("note", "worker processes")
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        check_env("CartPool-v1")


def test_registered_environments():
    found = check_env("Pendulum-v1", cost=lambda obs, action, new: float(abs(new[2]) > 1))
    assert found == []
    (found,) = check_env("CartPole-v1")
    assert found.problem == "Env 'CartPole-v1' reports no cost."


@pytest.mark.parametrize("env_id", PROBES)
def test_probes_pass(env_id):
    assert check_env(env_id) == []


def test_a_cap_on_steps_is_respected():
    counted = []
    source = twin(end=lambda self: (False, False), observation_space=box(-999, 999, (2,)),
                  info=lambda self: counted.append(1) or {"cost": abs(self.x)})  # fmt: skip
    (found,) = check_env(source, max_steps=50)
    assert "no episode ended in 50 random steps" in found.problem and len(counted) == 150


class Spoilt:
    """A probe batch with one attribute or method replaced."""

    def __init__(self, **changes):
        self._inner, self._changes = ProbeEnv(PROBES["probe/Speed-v0"], 2), changes

    def __getattr__(self, name):
        if name in self._changes:
            change = self._changes[name]
            return (lambda *a: change(self._inner, *a)) if callable(change) else change
        return getattr(self._inner, name)


def altered(**changes):
    """A step function with fields of the Step replaced."""

    def step(env, action):
        step = env.step(action)
        fields = {name: getattr(step, name) for name in step.__dataclass_fields__}
        return type(step)(**fields | {name: f(step) for name, f in changes.items()})

    return step


def forgetful(env, snapshot):
    return env.restore(snapshot | {"generator": env.snapshot()["generator"]})


VEC_FAULTS = {
    "obs shape": ({"step": altered(obs=lambda s: s.obs[:, 0])}, "shape"),
    "cost shape": ({"step": altered(cost=lambda s: s.cost[:, 0])}, "shape"),
    "flag dtype": ({"step": altered(terminated=lambda s: s.terminated * 1.0)}, "dtype"),
    "obs changes": ({"step": altered(obs=lambda s: s.obs + 1e-3)}, "auto-reset"),
    "no reset": ({"step": altered(next_obs=lambda s: s.obs)}, "auto-reset"),
    "NaN": ({"step": altered(obs=lambda s: s.obs * np.nan, next_obs=lambda s: s.obs * np.nan)},
            "observation not finite"),
    "cost NaN": ({"step": altered(cost=lambda s: s.cost * np.nan)}, "cost not finite"),
    "constant cost": ({"step": altered(cost=lambda s: s.cost * 0 + 1)}, "constant cost"),
    "seed": ({"reset": lambda env, seed: env.restore(env.snapshot())}, "seed"),
    "snapshot": ({"restore": forgetful}, "snapshot"),
    "names": ({"cost_names": ()}, "cost"),
    "raises": ({"step": lambda env, action: env.step(action[:1])}, "running"),
    "space": ({"observation_space": box(-1, 1, (2, 2))}, "observation space"),
}  # fmt: skip


@pytest.mark.parametrize("name", VEC_FAULTS)
def test_vec_env_faults(name):
    changes, check = VEC_FAULTS[name]
    assert {f.check for f in check_env(Spoilt(**changes))} == {check}


def test_vec_env_of_the_adapter_is_sound():
    assert check_env(Spoilt()) == []
    assert check_env(make_env(Healthy, 3)) == []


def test_table():
    stream = io.StringIO()
    console = Console(file=stream, width=120)
    print_findings([], console)
    assert "ready to train" in stream.getvalue()
    print_findings([Finding("error", "cost", "reads info['cost'] [K]", "add [K] numbers")], console)
    assert "info['cost'] [K]" in stream.getvalue() and "add [K] numbers" in stream.getvalue()
