"""The tests share these: daemons of Slurm and Ray on this machine, and rules of language."""
