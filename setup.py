"""Everything that may stand in pyproject.toml stands there; pip reads both files.

The license stays here because setuptools before 77 and from 77 on want it in different forms there.
"""

from setuptools import setup

setup(license="MIT")
