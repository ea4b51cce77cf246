"""What a user and a project know: entries to read, ranked for a text, and what kind of project a folder is."""
