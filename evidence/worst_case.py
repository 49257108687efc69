# SPDX-License-Identifier: Apache-2.0
"""How often is the worst case of an update attained? From runs trained with `--worst-case`.

    holdfast train c-trpo SafetyHopperVelocity-v1 --worst-case --cost-estimate epoch --out RUN
    python evidence/worst_case.py RUN [RUN ...]
    python evidence/worst_case.py results/worst_case.csv

For each run, or file of its rows: the share of updates after which the cost rose by the bound or
more, the typical rise and the typical bound, and their ratio. A share above 0 is noise of the
estimates, or an ε_c that the samples did not show.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from holdfast.records.rows import read_progress


def attained(bound: ArrayLike, realised: ArrayLike) -> tuple[float, float]:
    """(share of changes at or above their bound, median of change / bound); nan without any."""
    b, r = np.asarray(bound, float), np.asarray(realised, float)
    known = np.isfinite(b) & np.isfinite(r) & (b > 0)
    if not known.any():
        return float("nan"), float("nan")
    share = r[known] / b[known]
    return float((share >= 1).mean()), float(np.median(share))


def row(path: Path) -> list[str]:
    columns = read_progress(path if path.suffix == ".csv" else path / "progress.csv")
    if "worst_case" not in columns:
        raise SystemExit(f"'{path}' was trained without --worst-case.")
    bound, realised = columns["worst_case"][:-1], columns["realised"][1:]
    share, typical = attained(bound, realised)
    left = np.median(columns["delta_beta"]) if "delta_beta" in columns else float("nan")
    numbers = [f"{share:.1%}", f"{np.median(np.abs(realised)):.2f}", f"{np.median(bound):.1f}"]
    epsilon = f"{np.median(columns['epsilon_c']):.3g}"
    return [
        path.name.removesuffix(".csv"),
        str(len(bound)),
        *numbers,
        f"{typical:.4f}",
        epsilon,
        f"{left:.4f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="+")
    names = ["run", "updates", "attained", "median |ΔJ|", "median bound", "ΔJ / bound", "ε_c"]
    print("| " + " | ".join([*names, "δ(β)"]) + " |\n|" + "---|" * 8)
    for path in parser.parse_args().runs:
        print("| " + " | ".join(row(path)) + " |", flush=True)


if __name__ == "__main__":
    main()
