"""Language servers: a table of those hilt can start, a client for their protocol, and a pool that keeps them warm."""
