"""What a result looks like: limits, overflow, views."""
