"""The documentation site: Sphinx builds it from the Markdown, and a broken link is an error."""

import subprocess
import sys

import pytest

from support.commands import ROOT

pytest.importorskip("sphinx")


@pytest.mark.long(ci=True)
def test_the_site_is_built(tmp_path):
    program = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    command = [*program, "-c", ROOT / "docs/site", ROOT, tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    page = (tmp_path / "README.html").read_text()
    for link in ("tutorial", "mechanisms", "site/api", "site/stages"):
        assert f"docs/{link}.html" in page
    assert "fairseq_posattn.attention.register" in (tmp_path / "docs/site/api.html").read_text()
    assert "longest_dependency" in (tmp_path / "docs/site/score_json.html").read_text()
    assert "README.html" in (tmp_path / "index.html").read_text()
