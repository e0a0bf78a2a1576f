"""This storey holds what one does with trained models; nothing below it imports it."""
