"""Files for tools: the walk by handle, the workspace, changes, reading and editing."""
