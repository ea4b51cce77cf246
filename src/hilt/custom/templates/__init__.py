"""Binds values to variables of shell scripts without inserting them into the text."""
