"""Parses shell command lines and rates their risk. Pure: nothing is run."""
