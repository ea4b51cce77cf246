"""File formats and encodings, independent of tools."""
