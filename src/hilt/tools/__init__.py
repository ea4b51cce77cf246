"""One file per built-in tool, named as the tool. The folder listing is the tool list."""
