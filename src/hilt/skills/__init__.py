"""Skills and commands: instructions for agents in files, of the project, of the user, and built in."""
