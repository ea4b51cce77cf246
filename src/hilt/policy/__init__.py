"""The pure part of deciding: votes, rules, modes, path rules, hosts."""
