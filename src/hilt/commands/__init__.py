"""Shell command lines, read and rated by risk. Pure: nothing is run."""
