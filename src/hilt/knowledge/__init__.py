"""Knowledge of a user and a project: entries ranked for a query, and detection of the kind of a project."""
