"""What must survive a process: SQLite databases and blobs."""
