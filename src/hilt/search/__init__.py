"""Searches a tree with ripgrep, or with a fallback in Python that gives the same results."""
