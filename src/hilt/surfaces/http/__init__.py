"""HTTP: the API of `hilt serve`, its events and its console."""
