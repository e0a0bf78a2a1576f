"""Fixtures of the tests of the report."""

import json

import pytest

from fairseq_posattn.evaluation.report import report
from fairseq_posattn.evaluation.report.systems import read_systems


@pytest.fixture
def write(tmp_path):
    def write(*abouts):
        paths = [tmp_path / f"{k}.json" for k in range(len(abouts))]
        for path, about in zip(paths, abouts, strict=True):
            path.write_text(about if isinstance(about, str) else json.dumps(about))
        return paths

    return write


@pytest.fixture
def page(write):
    return lambda *abouts, **options: report.page(read_systems(write(*abouts)), **options)
