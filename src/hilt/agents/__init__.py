"""Agents: a conversation with a model that works with the tools of a runtime."""
