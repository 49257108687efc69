# SPDX-License-Identifier: Apache-2.0
"""Commands that look: list, evaluate, plot, envs, check. Each is parsed by its signature."""

from __future__ import annotations

from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table


def list_command(algorithm: tyro.conf.Positional[str] = "") -> None:
    """Algorithms, or the settings of one and what each preset changes."""
    from holdfast.algorithms import ALGORITHMS

    console = Console()
    if not algorithm:
        table = Table("name", "what it does", box=None, title="Algorithms", title_justify="left")
        for name, entry in ALGORITHMS.items():
            table.add_row(f"[cyan]{name}[/]", entry.summary)
        console.print(table)
        console.print("\n`holdfast list NAME` shows its settings; `holdfast envs` the tasks.")
        return
    from holdfast.cli.options import flag, grouped
    from holdfast.register import PRESETS
    from holdfast.run import make_run, preset_changes

    run = make_run(algorithm)
    table = Table("option", "default", "meaning", box=None, title=run.name, title_justify="left")
    defaults: dict[str, object] = {}
    for title, settings in grouped(run).items():
        table.add_row("", "", f"[bold]{title}[/]")
        for setting in settings:
            defaults[setting.path] = setting.value
            table.add_row(f"[cyan]{flag(setting.name)}[/]", str(setting.value), setting.help)
    console.print(table)
    for preset in PRESETS:
        changes = {k: v for k, v in preset_changes(run, preset).items() if defaults.get(k) != v}
        console.print(f"\n[bold]--preset {preset}[/] changes", highlight=False)
        for setting, value in changes.items():
            console.print(f"  {setting.split('.')[-1]} = {value}", highlight=False)
        if not changes:
            console.print("  nothing")


def evaluate_command(
    run: tyro.conf.Positional[Path],
    episodes: int = 100,
    until_decided: bool = False,
    max_episodes: int = 10_000,
    cost_bound: float | None = None,
    seed: int = 1_000_000,
    deterministic: bool = False,
    json: bool = False,
    save: bool = False,
) -> None:
    """Run fresh episodes of a trained policy and judge its safety.

    Args:
        run: The run folder.
        episodes: How many episodes.
        until_decided: Run more until the policy is proved safe or unsafe.
        max_episodes: Stop there even if nothing is proved.
        cost_bound: The most that one episode can cost; native tasks and probes know it.
        seed: Seed of the episodes; differs from the training seeds.
        deterministic: Take the most likely action instead of sampling.
        json: Print JSON instead of a table.
        save: Keep the numbers in the run folder, where `holdfast report` finds them.
    """
    from holdfast.agent import Agent
    from holdfast.bars import EvaluationBar
    from holdfast.runs.evaluations import save_evaluation

    agent = Agent.load(run)
    with EvaluationBar(episodes, quiet=json) as bar:
        result = agent.evaluate(
            episodes=episodes,
            seed=seed,
            deterministic=deterministic,
            cost_bound=cost_bound,
            until_decided=until_decided,
            max_episodes=max_episodes,
            on_progress=bar.update,
        )
    if save:
        save_evaluation(run, result)
    if json:
        print(result.json())
    else:
        result.print(Console())


def plot_command(run: tyro.conf.Positional[Path], out: Path | None = None) -> None:
    """Draw return, cost against limit and regret of a run.

    Args:
        run: The run folder.
        out: The picture's file; the suffix chooses PNG, SVG or PDF. Default: RUN/progress.png.
    """
    from holdfast.runs.folder import open_folder
    from holdfast.runs.plot import plot_run

    print(plot_run(open_folder(run), out or run / "progress.png"))


def envs_command(env: tyro.conf.Positional[str] = "") -> None:
    """Native tasks and probes, or a description of one.

    Args:
        env: An id; none lists all.
    """
    from holdfast.envs.make import known_ids
    from holdfast.envs.probe import PROBES

    console = Console()
    if not env:
        for name in known_ids():
            console.print(name, highlight=False)
        console.print("\nAny Gymnasium id that reports a cost works too: `holdfast check ENV`.")
    elif env in PROBES:
        probe = PROBES[env]
        console.print(f"[bold]{env}[/]: {probe.summary}", highlight=False)
        console.print(f"observations {probe.observation_space}", highlight=False)
        console.print(f"actions      {probe.action_space}", highlight=False)
        console.print(f"limits       {probe.cost_limits}", highlight=False)
        console.print(
            f"best safe return {probe.optimal_safe_return:g}, without limits "
            f"{probe.optimal_return:g}; at most {probe.horizon} steps",
            highlight=False,
        )
    else:
        from holdfast.envs.native import describe

        console.print(str(describe(env)), highlight=False, markup=False)


def check_command(env: tyro.conf.Positional[str]) -> None:
    """Look for faults in an environment and say how to mend them.

    Args:
        env: An environment id.
    """
    from holdfast.envs.check import check_env, print_findings

    findings = check_env(env)
    print_findings(findings)
    if any(finding.severity == "error" for finding in findings):
        raise SystemExit(1)
