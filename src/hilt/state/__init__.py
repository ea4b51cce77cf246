"""State that outlives a process: SQLite databases, blobs and locks."""
