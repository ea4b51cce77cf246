"""A figure is a measured value with its reference and limits; figures are printed as a table."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A measured value and a reference in the same unit; informational if it has no limits."""

    name: str
    measured: float
    unit: str
    reference: str
    reference_value: float
    maximum: float | None = None
    minimum: float | None = None
    max_ratio: float | None = None

    @property
    def ratio(self) -> float:
        """Measured value divided by the reference."""
        return self.measured / self.reference_value

    @property
    def limit(self) -> str:
        """The limits as text."""
        limits = []
        if self.max_ratio is not None:
            limits.append(f"<= {self.max_ratio:g} x")
        if self.maximum is not None:
            limits.append(f"<= {self.maximum:g} {self.unit}")
        if self.minimum is not None:
            limits.append(f">= {self.minimum:g} {self.unit}")
        return ", ".join(limits)

    @property
    def met(self) -> bool:
        """Whether every limit is met."""
        return (
            (self.max_ratio is None or self.ratio <= self.max_ratio)
            and (self.maximum is None or self.measured <= self.maximum)
            and (self.minimum is None or self.measured >= self.minimum)
        )


_COLUMNS = (("figure", 43), ("reference", 41), ("measured", 14), ("ratio", 9), ("limit", 20))


def heading() -> str:
    """Return the header of the table."""
    names = _joined(*(name for name, _ in _COLUMNS))
    return f"{names}\n{'-' * len(names.rstrip())}"


def row(figure: Figure) -> str:
    """Return one line of the table."""
    verdict = "" if not figure.limit else "met" if figure.met else "NOT met"
    return _joined(*_cells(figure)) + verdict


def markdown(figure: Figure) -> str:
    """Return one line of the table in docs/performance.md."""
    return f"| {' | '.join(_cells(figure))} |"


def _cells(figure: Figure) -> tuple[str, ...]:
    reference = f"{figure.reference}: {_number(figure.reference_value)} {figure.unit}"
    measured = f"{_number(figure.measured)} {figure.unit}"
    return figure.name, reference, measured, f"{figure.ratio:.3g} x", figure.limit


def _joined(*cells: str) -> str:
    return "".join(f"{cell:<{width}}  " for cell, (_, width) in zip(cells, _COLUMNS, strict=True))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
