"""What a person can ask for and do, one module per noun: functions that return values, which every surface encodes."""
