"""Doors to programs of others: models go out to CTranslate2."""
