"""The index of one client: SQLite FTS5 over title, tags, description and text, brought up to date file by file.

It is a cache. Every row follows from a file, known by its size and time of change; rows of folders that are not asked
for are left alone, because another workspace or another setting may ask for them.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import batched as _batched  # noqa: F401  # replaced below on Python 3.11
from typing import Any, NamedTuple, Protocol, TypeVar
