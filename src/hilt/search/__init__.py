"""Searches a tree with ripgrep, and verifies what it returns."""
