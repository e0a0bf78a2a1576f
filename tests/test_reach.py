"""The project keeps within the limits of reach.py and budgets.toml."""

from reach import budgets, files, sizes, too_long


def test_limits():
    assert files("fairseq_posattn/**/*.py")
    assert not too_long()


def test_budgets():
    found, permitted = sizes(), budgets()
    assert found.keys() == permitted.keys()
    over = {name: size for name, size in found.items() if size > permitted[name]}
    assert not over, f"over the budget (see CONTRIBUTING.md): {over}"
    loose = {name: size for name, size in found.items() if size < 0.97 * permitted[name]}
    assert not loose, f"lower the budget to what is needed: {loose}"
