"""A hatchling metadata hook: the package's README, with relative links turned into links to the repository."""

from __future__ import annotations

import os
import re
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Adds the README to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the project."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            text = absolute(file.read(), metadata["urls"]["Homepage"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, repository: str) -> str:
    """Return Markdown with relative links and images replaced by links to the repository and its raw files."""
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:)([^)]+)\)", rf"\1{repository}/raw/main/\2)", text)
    return re.sub(r"(?<!!)(\[[^\]]*\]\()(?![a-z]+:)([^)]+)\)", rf"\1{repository}/blob/main/\2)", text)
