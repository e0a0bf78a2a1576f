"""Reading and writing whole files, locks, checks of what was read."""
