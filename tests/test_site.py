"""The documentation site: Sphinx builds it from the Markdown, and a broken link is an error."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROOT

pytest.importorskip("sphinx")
PARTS = ("*.md", "docs/**/*", "recipes/*.md", "recipes/*/*.*")


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess:
    program = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    command = [*program, "-c", checkout / "docs/site", checkout, site]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.long(ci=True)
def test_the_site_is_built(tmp_path):
    ended = build(ROOT, tmp_path)
    assert ended.returncode == 0, ended.stderr[-3000:]
    page = (tmp_path / "README.html").read_text()
    for link in ("tutorial", "mechanisms", "site/api", "site/stages"):
        assert f"docs/{link}.html" in page
    assert "fairseq_posattn.attention.register" in (tmp_path / "docs/site/api.html").read_text()
    assert "longest_dependency" in (tmp_path / "docs/site/score_json.html").read_text()
    assert "README.html" in (tmp_path / "index.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("link", ["nowhere.md", "tutorial.md#no-such-heading"])
def test_a_broken_link_is_an_error(link, tmp_path):
    checkout = tmp_path / "checkout"
    for path in (path for part in PARTS for path in ROOT.glob(part) if path.is_file()):
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    with open(checkout / "docs/training.md", "a") as page:
        page.write(f"\n[a link]({link})\n")
    ended = build(checkout, tmp_path / "site")
    assert ended.returncode != 0
    assert "training.md" in ended.stderr and link.partition("#")[2] in ended.stderr
