"""The desktop: screenshots, windows, accessible elements, and input."""
