# SPDX-License-Identifier: Apache-2.0
"""Hatchling's hook for `readme`: links are absolute if `[project.urls]` names a Repository.

Without that address the text is unchanged, which is right for a wheel that is not published.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        address = metadata.get("urls", {}).get("Repository")
        if address:
            absolute = runpy.run_path(str(Path(__file__).with_name("links.py")))["absolute"]
            text = absolute(text, address, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
