"""Binding values into shell scripts without pasting them into the text."""
