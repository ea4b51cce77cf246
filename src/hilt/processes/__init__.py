"""Child processes of a call, background jobs, and what confines them."""
