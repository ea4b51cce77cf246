"""The server that the conformance suite tests: `hilt mcp --http --no-token` with the fixtures of the suite."""

from __future__ import annotations

import os
import sys

from hilt.surfaces.mcp import http
from hilt.surfaces.mcp.command import ServeOptions, serve
from tests.conformance.fixtures import FixtureServing

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools")


def main(workspace: str) -> int:
    """Serve a workspace until a signal arrives."""
    made = os.path.join(workspace, "made")
    os.makedirs(made)
    options = {"workspace": workspace, "tools-dir": os.pathsep.join((TOOLS, made)), "approve": "once"}
    http.Serving = FixtureServing  # type: ignore[assignment, attr-defined]  # with what the suite expects
    return serve(options, ServeOptions(http="", token=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
