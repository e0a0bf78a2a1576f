"""Classes of one's own: what is registered, and the error where a class cannot work."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass, field

import pytest
import torch

from fairseq_posattn.core import attention, positions
from fairseq_posattn.core.attention.registry import describe as describe_attention
from fairseq_posattn.core.registration import RegistrationError
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import one_line
from fairseq_posattn.text.live import providers
from support import own_classes

KINDS = {
    "mechanism": (attention, attention.MECHANISMS, attention.ScoreBias, "Mechanism", "relative"),
    "position": (positions, positions.POSITIONS, positions.Position, "Position", "sequence"),
    "tree provider": (
        *(providers, providers.PROVIDERS, providers.TreeProvider, "TreeProvider", "conllu"),
    ),
}
WITH_OPTIONS = [kind for kind in KINDS if kind != "tree provider"]


@pytest.fixture(autouse=True)
def tables():
    """Leave the tables as they were."""
    with own_classes.restored():
        yield


def refused(kind: str, cls) -> str:
    """Return the message for a class, which must name the line where the class is written."""
    face, table, *_ = KINDS[kind]
    before = dict(table)
    with pytest.raises(RegistrationError) as error:
        face.register(cls)
    message = str(error.value)
    assert table == before
    assert isinstance(error.value, InputError) and "\n" not in message
    if inspect.isclass(cls):
        line = inspect.getsourcelines(cls)[1]
        assert message.startswith(f"{cls.__qualname__} ({__file__}:{line})")
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_a_registered_class_is_in_the_table(kind):
    face, table, base, *_ = KINDS[kind]

    @face.register
    class Mine(base):
        name = "mine"

    assert table["mine"] is Mine
    assert face.register(Mine) is Mine  # once more: nothing changes


@pytest.mark.parametrize("kind", KINDS)
def test_two_classes_of_one_name(kind):
    _, table, base, *_, taken = KINDS[kind]

    class Mine(base):
        name = taken

    class Inherited(table[taken]):
        pass

    for cls in (Mine, Inherited):
        message = refused(kind, cls)
        assert f"the {kind} '{taken}' is already registered" in message
        assert table[taken].__qualname__ in message and "rename one of them" in message


NO_NAME = 'has no name; define name = "..." in the class'
NAMES = {None: NO_NAME, 3: NO_NAME}
NAMES |= dict.fromkeys(["Mine", "my-own", "help", "", "2d", "a b"], "cannot be the name of a")
NAMES |= dict.fromkeys(["type", "keys", "half"], "is reserved by torch")  # of a ModuleDict


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_used(kind, name):
    _, _, base, *_ = KINDS[kind]

    class Mine(base):
        pass

    if name is not None:
        Mine.name = name
    if kind in WITH_OPTIONS or "torch" not in NAMES[name]:
        assert NAMES[name] in refused(kind, Mine)


@pytest.mark.parametrize("kind", KINDS)
def test_another_base_class(kind):
    *_, base, _ = KINDS[kind]

    class Module(torch.nn.Module):
        name = "mine"

    assert f"is not a {kind}; derive it from {base}" in refused(kind, Module)
    assert f"is not a {kind}" in refused(kind, lambda: None)


class Colour(enum.Enum):
    RED = 1


@dataclass
class Good:
    size: int | None = None
    colours: tuple[Colour, ...] = (Colour.RED,)


def options(annotation, default=None, name="size"):
    """Return a dataclass of one option."""
    body = {"__annotations__": {name: annotation}, "__module__": __name__}
    if default is not None:
        body[name] = default
    return dataclass(type("Options", (), body))


@pytest.mark.parametrize("kind", WITH_OPTIONS)
@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (Good(), "its class Options is not a dataclass; decorate it with @dataclass(frozen=True)"),
        (options(int), "option 'size' is invalid: it has no default; add one"),
        (
            options(dict, field(default_factory=dict)),
            "option 'size' is invalid: dict is not one of bool, int",
        ),
        (options(str, "a,b"), "its default 'a,b' cannot be written as"),
        (
            options(int, 3, "heads"),
            "option 'heads' is invalid: this name is reserved in specifications",
        ),
    ],
)
def test_options_that_a_specification_cannot_write(kind, chosen, message):
    _, _, base, *_ = KINDS[kind]

    class Mine(base):
        name = "mine"
        Options = chosen

    assert message in refused(kind, Mine)


def test_options_of_every_type_in_a_specification():
    attention.register(type("Mine", (attention.ScoreBias,), {"name": "mine", "Options": Good}))
    positions.register(type("Place", (positions.Position,), {"name": "place", "Options": Good}))
    text = "(size=none, colours=red)"
    assert str(attention.AttentionSpecification("mine")) == f"mine{text}"
    assert str(attention.AttentionSpecification(f"mine{text}@0")) == f"mine{text}@0"
    assert str(positions.PositionSpecification("place + sequence")) == f"sequence + place{text}"
    with pytest.raises(SpecificationError, match=r"place\(size=x\): expected none, or a whole"):
        positions.PositionSpecification("place(size=x)")


@pytest.mark.parametrize(
    "specification", [attention.AttentionSpecification, positions.PositionSpecification]
)
def test_an_unknown_name_mentions_user_dir(specification):
    with pytest.raises(SpecificationError) as error:
        specification("mine")
    line = one_line(f"error: {error.value}")
    assert "is called 'mine'" in line
    assert line.endswith("import your own with --user-dir FOLDER")


class Early(attention.PreAttention):
    """The author says that it is safe, but a decoder has no stage before its attention."""

    name = "early"
    causal_safe = True


class Rooted(attention.ScoreBias):
    """The author says that it is safe, but a target has no tree."""

    name = "rooted"
    causal_safe = needs_tree = True


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (Early, "acts before or after the attention"),
        (Rooted, "reads trees, but target sentences have none"),
    ],
)
def test_what_no_decoder_has_a_place_for(mechanism, reason):
    attention.register(mechanism)
    with pytest.raises(SpecificationError, match=f"'{mechanism.name}' {reason}") as error:
        attention.AttentionSpecification(mechanism.name).check_causal()
    assert mechanism.name not in str(error.value).partition("takes:")[2].split(", ")
    assert f"\n{mechanism.name}\n" in describe_attention()
    assert f"\n{mechanism.name}\n" not in describe_attention("decoder")
