"""Agents as durable workflows, on one machine or many."""
