"""Text algorithms, independent of tools: encodings, matching, patching, diffing."""
