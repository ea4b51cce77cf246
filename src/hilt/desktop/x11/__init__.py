"""The desktop under X11."""
