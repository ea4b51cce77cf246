"""Searching a tree: ripgrep where it is there, Python where it is not, with the same answers."""
