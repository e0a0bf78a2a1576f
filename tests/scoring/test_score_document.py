"""The page on the JSON of a scored system is what its dataclasses say."""

import runpy
from dataclasses import fields

from fairseq_posattn.files.records import HELP, as_document, as_record
from fairseq_posattn.probing.results import Probes
from fairseq_posattn.scoring.score_document import document, records_in
from fairseq_posattn.scoring.score_record import ScoredSystem
from support.commands import ROOT
from support.scored_systems import scored


def test_the_program_prints_the_page(capsys):
    path = ROOT / "fairseq_posattn/scoring/score_document.py"
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out == document()


def test_every_key_is_explained():
    """The keys of posattn probe are explained in their dataclasses alone."""
    for record in (*records_in(ScoredSystem), *records_in(Probes)):
        assert all(field.metadata.get(HELP) for field in fields(record)), record


def test_a_document_is_the_same_when_it_was_read():
    """Keys that are missing stay missing, and null stays null."""
    about = scored()
    about["examples"][0]["reference"] = None
    del about["examples"][1]["depths"]
    read = as_record(ScoredSystem, about, "file.json", "")
    assert as_document(read) == about
