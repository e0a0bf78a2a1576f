"""What the tests of posattn score share."""

import json

import pytest

from fairseq_posattn.cli import score


@pytest.fixture
def scored(monkeypatch, tmp_path):
    """A function that runs posattn score and returns the JSON that it writes."""

    def scored(*arguments, out="out") -> dict:
        path = tmp_path / f"{out}.json"
        words = ["posattn score", *arguments, "--json", path]
        monkeypatch.setattr("sys.argv", list(map(str, words)))
        score.main()
        return json.loads(path.read_text(encoding="utf-8"))

    return scored
