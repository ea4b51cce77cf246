"""Tools that people bring as files: found, trusted, and made into the same Tool as the built-in ones."""
