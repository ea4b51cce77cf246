"""Other systems' tool names, arguments and replies, one module per system."""
