# SPDX-License-Identifier: Apache-2.0
"""Run folders on the command line: a path, or a URI of which a copy is made."""

from pathlib import Path
from typing import Annotated

from tyro.constructors import PrimitiveConstructorSpec

from holdfast.runs.storage import at_hand


def _reader(small: bool) -> PrimitiveConstructorSpec[Path]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH|URI",
        instance_from_str=lambda words: at_hand(words[0], small),
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda path: [str(path)],
    )


RunFolder = Annotated[Path, _reader(small=False)]
"""One run, with its newest checkpoint."""
Records = Annotated[Path, _reader(small=True)]
"""A run or the parent of many, without checkpoints."""
