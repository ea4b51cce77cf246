"""Annotations for tool parameters: what a signature declares beyond the plain type."""

from typing import Annotated, NamedTuple


class TouchMark(NamedTuple):
    """The argument names a target that the call touches with this effect."""

    effect: str


class Bounds(NamedTuple):
    """Limits of a number. With `clamp`, a value outside is clamped and noted instead of rejected."""

    minimum: float | None = None
    maximum: float | None = None
    clamp: bool = False


class Items(NamedTuple):
    """How many items an array may have."""

    minimum: int | None = None
    maximum: int | None = None


class Spellings(NamedTuple):
    """Other spellings of the values of an enumeration, each with the value it stands for."""

    values: tuple[tuple[str, str], ...]


ReadPath = Annotated[str, TouchMark("read")]
WritePath = Annotated[str, TouchMark("write")]
Command = Annotated[str, TouchMark("execute")]
Url = Annotated[str, TouchMark("network")]
Line = Annotated[int, Bounds(minimum=1)]
Count = Annotated[int, Bounds(minimum=0)]
