from __future__ import annotations

import pytest

from hilt.formats.times import COARSE_TICK_NS, TICK_NS, duration_seconds, is_settled, rfc3339

SECOND = 1_000_000_000


def test_a_time_is_formatted_in_utc_with_nanoseconds():
    assert rfc3339(1_700_000_000 * SECOND + 5) == "2023-11-14T22:13:20.000000005Z"


@pytest.mark.parametrize(
    "changed, after, settled",
    [
        (SECOND + 1, TICK_NS, False),
        (SECOND + 1, TICK_NS + 1, True),
        (SECOND, TICK_NS + 1, False),  # this file system may store whole seconds
        (SECOND, COARSE_TICK_NS + 1, True),
    ],
)
def test_a_file_time_is_settled_when_a_later_change_would_differ(changed, after, settled):
    assert is_settled(changed, changed + after) is settled


@pytest.mark.parametrize(
    "text, seconds",
    [
        *[("90s", 90), ("15m", 900), ("012h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("0s", 0)],
        *[(wrong, None) for wrong in ("", "s", "5", "1.5h", "-1h", "1 h", "1H", "1y", "٣h", "1h30m", "1" * 41 + "s")],
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    assert duration_seconds(text) == seconds
