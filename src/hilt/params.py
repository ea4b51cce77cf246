"""Typed parameter marks: what a tool's signature says beyond the plain type."""

from typing import Annotated, NamedTuple


class TouchMark(NamedTuple):
    """The argument names something that the call touches with this effect."""

    effect: str


class Bounds(NamedTuple):
    """A number within limits. With `clamp`, a value beyond them is moved to the limit and noted instead of refused."""

    minimum: float | None = None
    maximum: float | None = None
    clamp: bool = False


class Items(NamedTuple):
    """How many items an array may hold."""

    minimum: int | None = None
    maximum: int | None = None


ReadPath = Annotated[str, TouchMark("read")]
WritePath = Annotated[str, TouchMark("write")]
Command = Annotated[str, TouchMark("execute")]
Url = Annotated[str, TouchMark("network")]
Line = Annotated[int, Bounds(minimum=1)]
Count = Annotated[int, Bounds(minimum=0)]
