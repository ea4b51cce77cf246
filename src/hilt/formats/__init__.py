"""File formats and small encodings that know nothing of tools."""
