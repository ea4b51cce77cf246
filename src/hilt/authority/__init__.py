"""Who may do what in a workspace: rules in force, consent, grants, sessions, hooks."""
