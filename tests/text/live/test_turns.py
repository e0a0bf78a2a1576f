"""Threads that give way get their turn after all others."""

import threading

import pytest

from fairseq_posattn.text.live.parser_process import Turns
from support.commands import PATIENCE


def test_one_at_a_time_and_those_that_give_way_last():
    turns, order, threads = Turns(), [], []

    def work(name: str, gives_way: bool) -> None:
        if gives_way:
            with turns.giving_way(), turns.one():
                order.append(name)
        else:
            with turns.one():
                order.append(name)

    with turns.one():
        for name, gives_way in (("last", True), ("first", False), ("second", False)):
            threads.append(threading.Thread(target=work, args=(name, gives_way), daemon=True))
            threads[-1].start()
        with turns.changed:  # until both are known to wait
            assert turns.changed.wait_for(lambda: turns.waiting == 2, timeout=PATIENCE)
        assert order == []
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(order[:2]) == ["first", "second"] and order[2:] == ["last"]


def test_a_turn_ends_with_an_error():
    turns = Turns()
    with pytest.raises(ValueError), turns.giving_way(), turns.one():
        raise ValueError
    with turns.one():
        assert not getattr(turns.own, "gives_way", True)
