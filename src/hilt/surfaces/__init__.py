"""Protocol adapters: decode, call, encode."""


class Usage(Exception):
    """The command line is invalid; `command` is the one whose help to suggest."""

    def __init__(self, message: str, command: str = "hilt") -> None:
        super().__init__(message)
        self.command = command
