"""Files for tools: path resolution, the workspace, changes, reading and editing."""
