"""`python -m hilt` runs the command hilt."""

import sys

if __spec__ is not None and sys.modules["__main__"].__dict__ is globals() and not sys.flags.safe_path:
    # -m puts the working directory, which is the workspace, first: its modules must not shadow ours
    del sys.path[0]

from hilt.surfaces.cli import program

sys.exit(program())
