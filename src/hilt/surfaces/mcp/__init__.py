"""hilt as an MCP server."""
