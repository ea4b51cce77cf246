"""Who may do what: votes, and the strictest of them."""
