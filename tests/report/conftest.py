"""These are the fixtures of the tests of the report."""

import json

import pytest

from fairseq_posattn.report import report
from fairseq_posattn.report.systems import read_systems


@pytest.fixture
def write_results(tmp_path):
    def write_results(*abouts):
        paths = [tmp_path / f"{k}.json" for k in range(len(abouts))]
        for path, about in zip(paths, abouts, strict=True):
            path.write_text(about if isinstance(about, str) else json.dumps(about))
        return paths

    return write_results


@pytest.fixture
def page(write_results):
    return lambda *abouts, **options: report.page(read_systems(write_results(*abouts)), **options)
