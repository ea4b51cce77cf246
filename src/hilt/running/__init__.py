"""Scheduling of calls, the threads they run on, and the record of failures in hilt itself."""
