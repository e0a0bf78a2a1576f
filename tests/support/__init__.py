"""The tests share these: programs and data, slow references, daemons of Slurm and Ray."""
