"""The page of the stages shows all of them, and its examples keep the contract of mechanisms."""

import sys

import pytest

from fairseq_posattn.attention import PostAttention, PreAttention, QKVTransform
from fairseq_posattn.core.attention.pipeline import ON_SCORES
from fairseq_posattn.testing import check
from support.commands import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import stages

sys.path.pop(0)


def test_it_has_all_stages_in_their_order():
    shown = list(stages.STAGES)
    assert shown[:2] == [PreAttention, QKVTransform]
    assert shown[2:] == [*ON_SCORES, PostAttention]


@pytest.mark.parametrize("example", stages.EXAMPLES)
def test_an_example_keeps_the_contract(example):
    check(example)
