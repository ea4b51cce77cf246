"""The web: requests behind one guard, pages as text for a model, and search providers."""
