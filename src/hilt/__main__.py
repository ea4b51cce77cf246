"""`python -m hilt` is the command hilt."""

import sys

from hilt.surfaces.cli import main

sys.exit(main())
