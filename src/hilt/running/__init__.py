"""Scheduling of calls, the threads they run on, and the record of calls and of bugs in hilt."""
