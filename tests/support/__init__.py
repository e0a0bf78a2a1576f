"""Real daemons for the tests: Slurm and Ray on this machine."""
