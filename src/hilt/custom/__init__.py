"""Custom tools: discovered in files, trusted by the user, and converted to the same Tool as built-in ones."""
