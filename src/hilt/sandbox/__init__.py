"""Starts, limits, confines and ends child processes."""
