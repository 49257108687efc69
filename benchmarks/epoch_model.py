# SPDX-License-Identifier: Apache-2.0
"""A model of an epoch on n cores, fitted to one and two workers.

    seconds(n) = fixed + shared / n + critics + step + rest

Acting splits into what workers share and what they do not (hand-overs, the start of an epoch):
two measurements give both. The update does not get shorter with more workers. It is an
extrapolation: memory bandwidth, and cores that share execution units, are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

WORTH_A_WORKER = 0.05
"""The share of an epoch that twice the workers must save to be advised."""


@dataclass(frozen=True)
class EpochModel:
    """Seconds of the parts of an epoch."""

    fixed: float
    """Of acting, however many workers there are."""
    shared: float
    """Of acting, divided among the workers."""
    critics: float
    step: float
    rest: float

    def acting(self, workers: int) -> float:
        return self.fixed + self.shared / workers

    def seconds(self, workers: int) -> float:
        return self.acting(workers) + self.critics + self.step + self.rest

    def workers(self, cores: int) -> int:
        """Workers to use: doubled while that saves enough of an epoch, at most one a core."""
        count = 1
        while 2 * count <= cores and self.saves(count, 2 * count) >= WORTH_A_WORKER:
            count *= 2
        more = count < cores < 2 * count and self.saves(count, cores) >= WORTH_A_WORKER
        return cores if more else count

    def saves(self, few: int, many: int) -> float:
        """The share of an epoch that more workers save."""
        return 1 - self.seconds(many) / self.seconds(few)

    def advice(self, cores: int, num_envs: int) -> str:
        """The settings for so many cores: each worker has the same number of environments."""
        count = self.workers(cores)
        envs = -(-num_envs // count) * count
        share = self.acting(count) / self.seconds(count)
        return f"--workers {count} --num-envs {envs} on {cores} cores; acting is then {share:.0%}."


def fit_epoch(one: float, two: float, critics: float, step: float, rest: float = 0.0) -> EpochModel:
    """The model whose acting takes `one` second with one worker and `two` with two.

    Where two workers are more than twice as fast nothing is fixed; where they are slower than one
    nothing is shared.
    """
    shared = min(max(2 * (one - two), 0.0), one)
    return EpochModel(one - shared, shared, critics, step, rest)
