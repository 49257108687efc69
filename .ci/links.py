# SPDX-License-Identifier: Apache-2.0
"""README for a package index, which has no files beside it: links become absolute."""

import re

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)")
"""The address of a link or picture whose path is inside the repository."""
PICTURES = (".gif", ".jpg", ".png", ".svg", ".webp")


def absolute(text: str, address: str, version: str) -> str:
    """The text with links to the files of that version's tag, in GitHub's form of addresses."""

    def there(found: re.Match[str]) -> str:
        kind = "raw" if found[1].endswith(PICTURES) else "blob"
        return f"]({address.rstrip('/')}/{kind}/v{version}/{found[1]})"

    return LINK.sub(there, text)
