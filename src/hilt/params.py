"""Annotations for tool parameters: what a signature declares beyond the plain type."""

from typing import Annotated, Literal

# plain classes: a named tuple takes ten times as long to define, in every process that runs a tool


class TouchMark:
    """The argument names a target that the call touches with this effect."""

    def __init__(self, effect: str) -> None:
        self.effect = effect


class Bounds:
    """Limits of a number. With `clamp`, a value outside is clamped and noted instead of rejected."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None, *, clamp: bool = False) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.clamp = clamp


class Items:
    """How many items an array may have."""

    def __init__(self, minimum: int | None = None, maximum: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum


class Spellings:
    """Other spellings of the values of an enumeration, each with the value it stands for."""

    def __init__(self, values: tuple[tuple[str, str], ...]) -> None:
        self.values = values


ReadPath = Annotated[str, TouchMark("read")]
WritePath = Annotated[str, TouchMark("write")]
Command = Annotated[str, TouchMark("execute")]
Url = Annotated[str, TouchMark("network")]
Line = Annotated[int, Bounds(minimum=1)]
Count = Annotated[int, Bounds(minimum=0)]
NetworkName = Literal["none", "loopback", "full"]  # from strict to lax; sandbox/network.py says what each leads to
