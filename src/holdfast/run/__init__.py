# SPDX-License-Identifier: Apache-2.0
"""A run: all settings that determine a training run, and the presets.

`fields` has `Run`, with defaults and help texts, and `checks` refuses values that cannot work.
`configure` makes a run from an algorithm, a preset and settings by name. `run_json` reads and
writes the data of run.json.
"""

from holdfast.run.checks import check_costs
from holdfast.run.configure import (
    ELSEWHERE,
    configure,
    divisible,
    make_run,
    preset_changes,
    registered_name,
    with_preset,
)
from holdfast.run.fields import Run
from holdfast.run.run_json import default_settings, from_json, to_json

__all__ = [
    "ELSEWHERE",
    "Run",
    "check_costs",
    "configure",
    "default_settings",
    "divisible",
    "from_json",
    "make_run",
    "preset_changes",
    "registered_name",
    "to_json",
    "with_preset",
]
