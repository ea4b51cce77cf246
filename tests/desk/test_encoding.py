from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from hilt.desk.encoding import plain
from hilt.formats.times import Moment


class Inner(NamedTuple):
    at: Moment
    names: tuple[str, ...]


class Outer(NamedTuple):
    inner: Inner | None
    rows: list[Inner]
    by_name: dict[str, Inner]


@pytest.mark.parametrize(
    "value, encoded",
    [
        (Moment(1_500_000_000), "1970-01-01T00:00:01.500000000Z"),
        (1_500_000_000, 1_500_000_000),
        (Inner(Moment(0), ("a", "b")), {"at": "1970-01-01T00:00:00.000000000Z", "names": ["a", "b"]}),
        (
            Outer(None, [Inner(Moment(0), ())], {"x": Inner(Moment(0), ())}),
            {
                "inner": None,
                "rows": [{"at": "1970-01-01T00:00:00.000000000Z", "names": []}],
                "by_name": {"x": {"at": "1970-01-01T00:00:00.000000000Z", "names": []}},
            },
        ),
        ({"as": ["it", 1, 1.5, True, None]}, {"as": ["it", 1, 1.5, True, None]}),
    ],
)
def test_values_are_encoded_as_json_values(value: Any, encoded: Any):
    assert plain(value) == encoded
