"""Tools of other MCP servers."""
