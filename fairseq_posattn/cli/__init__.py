"""This room holds the installed commands, one module for each."""
