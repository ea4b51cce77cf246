"""Text algorithms that know nothing of tools: encodings, matching, patching, diffing."""
