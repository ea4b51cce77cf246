"""How calls wait for each other, run on threads, and what happens when hilt itself fails."""
