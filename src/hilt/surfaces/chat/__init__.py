"""`hilt chat`: a conversation with a model on the terminal."""
