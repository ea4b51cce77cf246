"""The cost of models per day, and per ten minutes for recent days, across all processes."""

from __future__ import annotations

import time
from typing import NamedTuple

from hilt.state.stored_runs import note
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from decimal import Decimal

    from hilt.call import Origin

KEPT_DAYS = 400
SLOTS_DAYS = 8  # how long the ten-minute slots are kept

_SLOT = "t"  # prefix of the slots, which share the column of the days
_NANO = 1_000_000_000  # amounts are stored as whole billionths of a dollar, so that sums are exact


class ModelSpending(NamedTuple):
    """The requests to one model on one day; `cost` is in dollars, without the unpriced requests."""

    model: str
    requests: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    cost: float


class Spending:
    """The spending of the user on models, by day (YYYY-MM-DD) and model."""

    def __init__(self, directory: str, workspace: str = "", origin: Origin | None = None) -> None:
        """`origin` is the run in a workspace to which requests are charged."""
        self._db = open_state(directory)
        self.close = self._db.close
        self._workspace = workspace
        self._origin = origin

    def add(self, day: str, model: str, *, input_tokens: int, output_tokens: int, cost: Decimal | None) -> None:
        """Count one request; a cost of None is unknown."""
        amount = 0 if cost is None else int((cost * _NANO).to_integral_value())
        counts = (model, 1, int(cost is None), input_tokens, output_tokens, amount)
        now = time.time()
        rows = [(day, *counts), (_slot(now), *counts)]
        query = """INSERT INTO spending VALUES (?,?,?,?,?,?,?) ON CONFLICT (day, model) DO UPDATE SET
                     requests=requests+1, unpriced=unpriced+excluded.unpriced,
                     input_tokens=input_tokens+excluded.input_tokens,
                     output_tokens=output_tokens+excluded.output_tokens, nanodollars=nanodollars+excluded.nanodollars"""
        charge = """INSERT INTO run_costs VALUES (?,?,?,?,?,?,?,?,?,?)
                      ON CONFLICT (workspace, run, agent, model) DO UPDATE SET""" + query.partition("DO UPDATE SET")[2]  # noqa: S608
        forget = "DELETE FROM spending WHERE day<? OR day BETWEEN ? AND ?"
        limits = _oldest_kept(day), _SLOT, _slot(now - SLOTS_DAYS * 86_400)

        def work(db: sqlite3.Connection) -> None:
            db.executemany(query, rows)
            db.execute(forget, limits)
            if self._origin is not None:
                db.execute(charge, (self._workspace, *note(self._workspace, self._origin, db), *counts))

        self._db.write(work)

    def total(self, day: str) -> float:
        """Return the cost of all models on a day, in dollars."""
        rows = self._db.rows("SELECT nanodollars FROM spending WHERE day=?", (day,))
        return int(sum(amount for (amount,) in rows)) / _NANO

    def models(self, day: str) -> list[ModelSpending]:
        """Return the models used on a day, the most expensive first."""
        query = """SELECT model, requests, unpriced, input_tokens, output_tokens, nanodollars FROM spending
                   WHERE day=? ORDER BY nanodollars DESC, model"""
        return [ModelSpending(*row)._replace(cost=row[-1] / _NANO) for row in self._db.rows(query, (day,))]

    def since(self, moment: float) -> list[ModelSpending]:
        """Return the models used since a recent time, the most expensive first; accurate to ten minutes."""
        query = """SELECT model, sum(requests), sum(unpriced), sum(input_tokens), sum(output_tokens), sum(nanodollars)
                   FROM spending WHERE day>=? GROUP BY model ORDER BY 6 DESC, model"""
        return [ModelSpending(*row)._replace(cost=row[-1] / _NANO) for row in self._db.rows(query, (_slot(moment),))]


def _slot(moment: float) -> str:
    """Return the slot of a time; slots sort after all days."""
    return f"{_SLOT}{int(moment // 600):010d}"


def _oldest_kept(day: str) -> str:
    """Return the oldest day to keep as of a day."""
    from datetime import date, timedelta

    return str(date.fromisoformat(day) - timedelta(days=KEPT_DAYS))
