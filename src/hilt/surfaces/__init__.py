"""Protocol adapters: decode, call, encode."""
