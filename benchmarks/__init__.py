"""How fast hilt is: every figure of the specification, each beside a reference measured in the same run."""
