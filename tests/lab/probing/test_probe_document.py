"""The document of the JSON of posattn-probe is the one that the records give."""

from fairseq_posattn.lab.probing.document import document
from support.commands import ROOT


def test_the_document_is_up_to_date():
    text = (ROOT / "docs/probe_json.md").read_text(encoding="utf-8")
    command = "python -m fairseq_posattn.lab.probing.document > docs/probe_json.md"
    assert text == document(), f"make it again: {command}"
