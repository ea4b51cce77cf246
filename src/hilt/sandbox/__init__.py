"""Child processes: started, bounded, confined and ended in one place."""
