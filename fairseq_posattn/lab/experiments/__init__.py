"""This package is the engine of the recipes: it prepares data, trains, evaluates and makes tables.

A recipe is a folder with a recipe.toml, and a corpus.py if its corpus is special.
"""
