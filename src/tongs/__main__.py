"""`python -m tongs` is the command tongs."""

import sys

from tongs.surfaces.cli import main

sys.exit(main())
