# SPDX-License-Identifier: Apache-2.0
"""solve, verify, figures and the playground as a user meets them."""

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from holdfast.cli import figures as figures_command
from holdfast.cli import playground, solve, verify
from holdfast.cli.cmdp import load
from holdfast.paper import claims
from holdfast.paper.figures import Look, figures, paths, penalty, policy_square
from holdfast.paper.square import page
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.cmdp_files import write_cmdp
from holdfast.tabular.flow import Geometry
from holdfast.tabular.instances import gridworld
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import mirror_path
from holdfast.tabular.occupancy import evaluate, occupancy
from holdfast.tabular.trust import Method, update


def test_solve_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cmdp(toy(), tmp_path / "toy.json")
    solve.command(str(tmp_path / "toy.json"), json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["reward_return"] == pytest.approx(1.10319032, abs=5e-9)
    assert report["constraints"][0]["state"] == "active"
    assert report["constraints"][0]["shadow_price"] == pytest.approx(1.210121, abs=5e-7)


def test_solve_prints_tables(capsys: pytest.CaptureFixture[str]) -> None:
    solve.command("toy", limit=(0.3,))
    shown = capsys.readouterr().out
    assert "1.22" in shown and "active" in shown
    solve.command("toy", limit=(float("inf"),))
    assert "off" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        solve.command("toy", limit=(0.001,))
    assert "infeasible" in capsys.readouterr().out
    solve.command("grid:lava")
    assert "more states" in capsys.readouterr().out
    solve.command("FrozenLake-v1", limit=(0.001,))
    assert "active" in capsys.readouterr().out


MACHINE = Path(__file__).parents[2] / "docs" / "examples" / "machine.json"


def test_the_example_file_through_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solve.command(str(MACHINE))
    assert "V_r = 1.015" in capsys.readouterr().out
    assert json.loads(MACHINE.read_text()) == json.loads(
        (MACHINE.parents[1] / "tabular.md").read_text().split("```json\n")[1].split("```")[0]
    )
    verify.command(str(MACHINE))
    shown = capsys.readouterr().out
    assert "toy" not in shown and shown.count("holds") == len(claims.EVERYWHERE)
    figures_command.command("polytope", str(tmp_path), ("svg",), cmdp=str(MACHINE))
    assert "safe optimum,0.4480874317" in (tmp_path / "polytope.csv").read_text()
    playground.command(str(tmp_path / "p.html"), str(MACHINE))
    assert '"gamma": 0.95' in (tmp_path / "p.html").read_text()
    with pytest.raises(ValueError, match="paths work for any CMDP"):
        figures("polytope", tmp_path, ("svg",), own=gridworld("corridor"))


@pytest.mark.parametrize("source", [str(MACHINE), "toy", "implicit-bias", "grid:corridor"])
def test_solve_honours_gamma(source: str) -> None:
    assert load(source, 0.5).gamma == 0.5 != load(source).gamma


@pytest.mark.parametrize("source", ["grid:moon", "no-such-env"])
def test_solve_refuses_unknown_sources(source: str) -> None:
    with pytest.raises(ValueError, match=r"unknown gridworld|neither"):
        solve.command(source)
    with pytest.raises(ValueError, match="one for each"):
        solve.command("toy", limit=(0.1, 0.2))


def test_verify_prints_a_verdict_for_each_claim(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verify.command(random=0)
    assert capsys.readouterr().out.count("holds") == len(claims.check_claims(0, seed=0))
    monkeypatch.setattr(claims, "occupancy", lambda cmdp, policy: 2.0 * occupancy(cmdp, policy))
    with pytest.raises(SystemExit, match="1"):
        verify.command(random=0)
    assert "FAILS" in capsys.readouterr().out


def test_figures_come_with_their_data(tmp_path: Path) -> None:
    files = figures("divergence", tmp_path, ("png", "svg", "pdf"))
    files += figures("polytope", tmp_path, ("png",))
    assert all(file.stat().st_size > 100 for file in files)
    with (tmp_path / "divergence.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["order"] == "new||old"]
    at = {(row["barrier"], float(row["cost_advantage"])): float(row["divergence"]) for row in rows}
    assert at["entropy", 1.0] == pytest.approx(0.18906978, abs=1e-8)
    with pytest.raises(ValueError, match="unknown figure"):
        figures("cube", tmp_path)
    with pytest.raises(ValueError, match="cannot write"):
        figures("divergence", tmp_path, ("bmp",))


def test_figure_trajectories() -> None:
    """Starts as specified; exact paths stay safe, the published recipe crosses."""
    starts = policy_square.starts(toy())
    assert len(starts) == 10 and all(evaluate(toy(), p).slack[0] > 0.1 for p in starts)
    safe = policy_square.trajectory(toy(), starts[0], 1.0, parity=False)
    assert np.all(safe.cost_return < 0.2 + 1e-12)
    assert safe.reward_return[-1] == pytest.approx(1.10319, abs=1e-5)
    parity = policy_square.trajectory(toy(), starts[0], 1.0, parity=True)
    assert 1.0 < parity.reward_return[-1] < 1.11


def test_the_three_paths_of_the_figure() -> None:
    """CPO slides along the limit to the optimum; the entropy barrier's recoveries are the teeth."""
    best = optimum(toy()).reward_return
    start = two_action_policy(0.15, 0.25)
    runs = [paths.run(toy(), start, method, geometry) for _, method, geometry, _ in paths.RUNS]
    cpo, entropy, log = (run.cost_return[:, 0] for run in runs)
    assert np.sum(cpo > 0.2 + 1e-9) == 2 and cpo.max() < 0.2 + 1e-4
    assert runs[0].reward_return[-1] == pytest.approx(best, abs=1e-7)
    assert runs[2].reward_return[-1] == pytest.approx(best, abs=1e-3)
    assert log.max() < 0.2 and np.all(np.diff(log[60:]) > 0.0)
    teeth = np.diff(entropy) < -0.02
    assert teeth.sum() == 6 and np.all(entropy[:-1][teeth] >= 0.2 - 1e-9)


def test_a_penalty_is_biased_and_the_metric_is_not() -> None:
    """The penalised flow stops β short of the optimum; C-NPG's gap keeps falling like 1/t."""
    drawn = penalty.draw()
    names = drawn.columns
    gap = {
        (row[0], row[1], row[2]): row[names.index("gap")] for row in drawn.rows if row[2] > 200.0
    }
    first, last = sorted({time for _, _, time in gap})[0], penalty.TIMES[-1]
    for beta in penalty.BETAS:
        assert gap["penalty", beta, last] == pytest.approx(beta, abs=1e-6)
        assert gap["metric", beta, last] < 0.01 * beta
        fall = gap["metric", beta, last] / gap["metric", beta, first]
        assert fall == pytest.approx(first / last, rel=0.02)


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to open the playground")


def dom(file: Path, settings: str) -> str:
    assert CHROMIUM is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"]
    run = subprocess.run(
        [
            CHROMIUM,
            *flags,
            f"--user-data-dir={file.parent}/profile",
            "--dump-dom",
            f"{file.as_uri()}#{settings}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return run.stdout


def cell(html: str, name: str) -> list[float]:
    found = re.search(rf'id="{name}"[^>]*>(.*?)</t[dr]>(?:\s*</tr>)?', html, re.DOTALL)
    assert found, name
    return [float(x) for x in re.findall(r"-?\d+\.\d+", found.group(1))]


@browser
def test_playground_computes_what_the_library_computes(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(), encoding="utf-8")
    html = dom(tmp_path / "page.html", "x=0.6&y=0.4&beta=1&barrier=entropy&radius=0.05&limit=0.2")
    assert cell(html, "reward") == [0.676] and cell(html, "cost") == [0.19148, 0.2]
    assert cell(html, "best") == pytest.approx([1.10319, 1.0, 0.9271], abs=1e-4)
    end = [float(x) for x in re.findall(r'data-flow="([\d.]+),([\d.]+)"', html)[0]]
    limit = mirror_path(toy(), two_action_policy(0.6, 0.4), [60.0]).policy[0, :, 0]
    assert end == pytest.approx(limit.tolist(), abs=5e-3)


@browser
@pytest.mark.parametrize(
    ("first", "settings", "recovering"),
    [
        ((0.6, 0.4), "barrier=entropy&radius=0.05", ()),
        ((0.3, 0.1), "barrier=log&radius=0.01", ()),
        ((0.6, 0.46), "barrier=entropy&radius=0.05", ("ctrpo",)),
        ((0.1, 0.9), "barrier=entropy&radius=0.05", ("cpo", "ctrpo")),
    ],
)
def test_playground_updates_are_the_librarys(
    tmp_path: Path, first: tuple[float, float], settings: str, recovering: tuple[str, ...]
) -> None:
    """TRPO, CPO and C-TRPO, in the safe set, within reach of it, and out of reach."""
    (tmp_path / "page.html").write_text(page(), encoding="utf-8")
    html = dom(tmp_path / "page.html", f"x={first[0]}&y={first[1]}&beta=1&limit=0.2&{settings}")
    chosen = dict(pair.split("=") for pair in settings.split("&"))
    methods: tuple[Method, ...] = ("trpo", "cpo", "ctrpo")
    for name in methods:
        row = re.search(rf'id="row-{name}">.*?</tr>', html, re.DOTALL)
        assert row
        point = [float(x) for x in re.findall(r"\d+\.\d{4}", row.group(0))[:2]]
        geometry = Geometry(1.0, chosen["barrier"])
        exact = update(toy(), two_action_policy(*first), float(chosen["radius"]), name, geometry)
        assert exact.recovering == (name in recovering)
        assert point == pytest.approx(exact.policy[:, 0].tolist(), abs=6e-5)


@browser
def test_playground_redraws_when_dragged(tmp_path: Path) -> None:
    """A pointer press moves the policy; sliders change the update; nothing is fetched."""
    script = """<script>
      const box = canvas.getBoundingClientRect();
      const along = (share, length) => length * (EDGE + share * SPAN) / SIZE;
      const at = { clientX: box.left + along(0.25, box.width), buttons: 1, pointerId: 1,
                   clientY: box.top + along(0.9, box.height) };
      canvas.dispatchEvent(new PointerEvent("pointerdown", at));
      byId("limit").value = 0.3; byId("limit").dispatchEvent(new Event("input"));
    </script></body>"""
    source = page()
    assert "http://" not in source and "https://" not in source
    (tmp_path / "page.html").write_text(source.replace("</body>", script), encoding="utf-8")
    html = dom(tmp_path / "page.html", "x=0.6&y=0.4")
    assert cell(html, "policy") == pytest.approx([0.25, 0.1], abs=2e-3)
    assert cell(html, "cost")[1] == 0.3
    assert cell(html, "best")[0] == pytest.approx(1.22, abs=1e-3)


def test_playground_refuses_other_shapes() -> None:
    from holdfast.tabular.cmdp import implicit_bias

    with pytest.raises(ValueError, match="2 states, 2 actions"):
        page(implicit_bias())


def test_figures_draw_what_is_asked_for(tmp_path: Path) -> None:
    """Another barrier, other weights, another radius; and no more than can be told apart."""
    figures_command.command("divergence", str(tmp_path), ("svg",), barrier="log")
    with (tmp_path / "divergence.csv").open() as file:
        assert {row["barrier"] for row in csv.DictReader(file)} == {"log"}
    asked = paths.runs(Look((0.1, 2.0), "log"))
    assert [run[2] for run in asked[1:]] == [Geometry(0.1, "log"), Geometry(2.0, "log")]
    assert paths.runs(Look()) == paths.RUNS
    with pytest.raises(ValueError, match="more than a figure has colours for"):
        Look((1.0,) * 6)
    for wrong in ({"beta": (0.0,)}, {"radius": -1.0}, {"barrier": "cube"}):
        with pytest.raises(ValueError, match="must be"):
            figures_command.command("divergence", str(tmp_path), ("svg",), **wrong)
