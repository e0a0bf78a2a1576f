"""Prepare data, train and evaluate models, and write result tables for recipes.

A recipe is a folder that contains a recipe.toml. If its corpus requires code, the folder also
contains a corpus.py. Recipes for tasks other than translation contain a trial.py.
"""
