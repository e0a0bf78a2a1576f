"""The engine of the recipes: prepares data, trains and evaluates models, and writes tables.

A recipe is a folder with a recipe.toml and, if its corpus needs code, a corpus.py.
"""
