"""Models go out to CTranslate2: what it computes there, what is refused, and the folder."""

import io
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("ctranslate2")
import ctranslate2
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel

from fairseq_posattn.cli import translate
from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.doors.converter import Converter, Refused
from fairseq_posattn.doors.exported import Translator
from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.scoring.loaded_model import Loaded
from fairseq_posattn.plugin import PosattnTransformerModel
from support.commands import ROOT, run
from support.files import lines_of, write
from support.in_process import call, posattn
from support.raw_corpus import write_raw

EXPORTED = {"relative", "t5_bias", "rope", "temperature", "tree_supervised"}
LENGTHS = (5, 9, 30, 150)  # beyond the last bucket of t5_bias


def task():
    dictionary = Dictionary()
    for symbol in [*(f"w{number}" for number in range(58)), "(", ")"]:
        dictionary.add_symbol(symbol)
    dictionary.finalize()
    return SimpleNamespace(
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        provides_trees=True,
        label_sizes=lambda kinds: {"relations": 5, "tags": 5},
        label_dictionaries=SimpleNamespace(fingerprint=b"00"),
    )


def build(kind=PosattnTransformerModel, arch="posattn_no_positions_tiny", **options) -> Loaded:
    """A model of random weights, none of which is 0 or 1 in the beginning."""
    torch.manual_seed(0)
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 2), ("embed_dim", 32), ("attention_heads", 4))
    }
    sizes |= {"encoder_ffn_embed_dim": 64, "decoder_ffn_embed_dim": 64}
    sizes |= {"encoder_positions": "none", "decoder_positions": "none"}
    sizes |= {"max_source_positions": 200, "max_target_positions": 200}
    args = Namespace(arch="posattn_transformer", dropout=0.0, **{**sizes, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    of_task = task()
    model = kind.build_model(args, of_task).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.25)
    return Loaded(model, of_task, None)


def difference(loaded: Loaded, folder, batch=None) -> float:
    """The largest difference of a piece's log-probability, by sentences of several lengths."""
    spec = Converter(loaded).specification()
    spec.validate()
    spec.optimize()
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    dice = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, 64, (length,), generator=dice) for length in LENGTHS]
    targets = [torch.randint(4, 64, (length + 7,), generator=dice) for length in LENGTHS]
    named = [
        [[loaded.task.source_dictionary[int(k)] for k in sentence] for sentence in side]
        for side in (sources, targets)
    ]
    model = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    found, end = model.score_batch(*named), torch.tensor([2])
    worst = 0.0
    for source, target, scored in zip(sources, targets, found, strict=True):
        source = torch.cat([source, end])
        with torch.no_grad():
            x, _ = loaded.model(
                source[None], torch.tensor([len(source)]), torch.cat([end, target])[None]
            )
        scores = x[0].log_softmax(-1).gather(1, torch.cat([target, end])[:, None])[:, 0]
        worst = max(worst, float((scores - torch.tensor(scored.log_probs)).abs().max()))
    return worst


def uses(side: str):
    for name, mechanism in sorted(MECHANISMS.items()):
        if mechanism.causal_safe if side == "decoder" else not mechanism.reads_brackets:
            for options in mechanism.examples:
                yield f"{name}({options})" if options else name


@pytest.mark.parametrize(
    ("side", "use"), [(side, use) for side in ("encoder", "decoder") for use in uses(side)]
)
def test_each_mechanism_is_the_same_there_or_refused_by_name(side, use, tmp_path):
    name = use.partition("(")[0]
    loaded = build(**{f"{side}_attention": use})
    half = name in EXPORTED or (name == "alibi" and side == "decoder")
    if half and not any(word in use for word in ("shared_heads=f", "scaled=f", "sides=", "heads=")):
        assert difference(loaded, tmp_path / "model") < 1e-5
        return
    with pytest.raises(Refused, match=rf"CTranslate2 cannot express .*{name}"):
        Converter(loaded).specification()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder_positions": "sequence", "decoder_positions": "sequence"},
        {"encoder_learned_pos": True, "encoder_positions": "sequence"},
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
        {"encoder_normalize_before": True, "activation_fn": "gelu"},
        {"layernorm_embedding": True, "no_scale_embedding": True},
        {"share_decoder_input_output_embed": True, "decoder_layers": 1},
        {"cross_attention": "temperature"},
        {"encoder_attention": "relative + temperature + tree_supervised@0"},
        {"encoder_attention": "relative + rope", "decoder_attention": "t5_bias + rope"},
        {"encoder_attention": "relative(max=3)@0 + rope(base=9)@1"},
        {"encoder_attention": "relative@1", "encoder_positions": "sequence"},
        {"decoder_attention": "t5_bias@1 + temperature", "decoder_positions": "sequence"},
        {"decoder_attention": "alibi + temperature"},
        {"encoder_attention": "temperature(heads=1|3)@0"},
        {"encoder_attention": "tree_supervised(scores=biaffine, heads=2)@1 + temperature@1"},
    ],
)
def test_models_that_compute_the_same_there(options, tmp_path):
    assert difference(build(**options), tmp_path / "model") < 1e-5


@pytest.mark.parametrize("options", [{}, {"no_token_positional_embeddings": True}])
def test_a_model_of_fairseq_itself(options, tmp_path):
    assert difference(build(TransformerModel, "transformer", **options), tmp_path / "model") < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"encoder_attention": "relative", "encoder_positions": "sequence"},
            "--encoder-positions 'sequence' beside --encoder-attention 'relative.*positions none",
        ),
        ({"encoder_positions": "sequence + tree_depth"}, r"what reads trees \(sequence \+ tree_d"),
        ({"cross_attention": "tree_walk"}, r"what reads trees \(.*tree_walk"),
        ({"encoder_attention": "relative(heads=1)"}, "'relative' on some heads; train it on all"),
        ({"decoder_attention": "alibi@1"}, "alibi in some layers; train with it in all layers"),
        (
            {"encoder_attention": "tree_supervised(scores=biaffine)@0 + relative@0"},
            "with a matrix beside them",
        ),
        ({"activation_fn": "tanh"}, "--activation-fn tanh; take one of relu, gelu"),
        ({"scale_heads": True}, "--scale-heads; train without it"),
    ],
)
def test_what_cannot_be_expressed(options, message):
    with pytest.raises(Refused, match=message):
        Converter(build(**options)).specification()


def test_nothing_that_was_learnt_is_left_behind():
    loaded = build()
    loaded.model.encoder.layers[0].more = torch.nn.Linear(2, 2)
    with pytest.raises(Refused, match=r"the parameter encoder\.layers\.0\.more\.weight"):
        Converter(loaded).specification()


@pytest.mark.long
@pytest.mark.parametrize("release", ["4.8.0", "4.8.1", "4.8.2", "4.8.3", "4.8.4"])
def test_each_release_that_the_extra_allows(release, tmp_path):
    """All models above, by the other releases; the environment has the last one."""
    asked = ("--quiet", "--no-deps", "--target", tmp_path / "other", f"ctranslate2=={release}")
    run(sys.executable, "-m", "pip", "install", *asked)
    env = {"PYTHONPATH": str(tmp_path / "other")}
    code = "import ctranslate2; print(ctranslate2.__version__)"
    assert run(sys.executable, "-c", code, env=env, fresh=True).stdout.strip() == release
    how = ("-q", "-p", "no:cacheprovider", "-k", "the_same_there or text_goes", __file__)
    printed = run(sys.executable, "-m", "pytest", *how, env=env, fresh=True).stdout
    assert " passed" in printed and "failed" not in printed


# The command, on data of the preparation


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with raw text, data and the checkpoint of a few updates."""
    folder = tmp_path_factory.mktemp("trained")
    write_raw(folder)
    texts = [f"--{name}={folder}/tidy/{name}" for name in ("train", "valid", "test")]
    how = ("--parser", "none", "--tokenize", "moses", "--symbols", 90, "--min-frequency", 2)
    posattn("prepare", "--source", "de", "--target", "en", *texts, *how, "--out", folder / "data")
    sizes = [f"--{side}-{name}" for side in ("encoder", "decoder") for name in ("layers",)]
    call(
        *("train", folder / "data", "--task", "structured_translation", "--num-workers", 0),
        *("--arch", "posattn_no_positions_tiny", "--encoder-attention", "relative"),
        *(word for size in sizes for word in (size, 2)),
        *("--optimizer", "adam", "--lr", "3e-3", "--max-tokens", 800, "--max-update", 30, "--cpu"),
        *("--save-dir", folder / "run", "--disable-validation", "--no-epoch-checkpoints"),
    )
    done = posattn(
        *("export", "ctranslate2", folder / "run/checkpoint_last.pt"),
        *("--out", folder / "out", "--quantization", "int8", "--sentences", 5),
    )
    assert done.code == 0, done.err
    assert "by 5 sentences, the log-probability of a piece differs by" in done.out
    return folder


def translated(monkeypatch, folder, lines, *options) -> list[str]:
    text = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "argv", ["posattn-translate", *map(str, (folder, *options))])
    translate.main()
    return written.getvalue().splitlines()


def test_text_goes_in_and_out(trained, monkeypatch):
    lines = lines_of(trained / "tidy/test.de")[:5]
    translator = Translator(trained / "out", threads=1)
    expected = translator.translate(lines)
    assert translated(monkeypatch, trained / "out", lines, "--batch", 2) == expected
    assert translator.translate(["", *lines[:1]])[1] == expected[0]
    broken = [lines[0].replace(" ", "\r", 1), lines[1]]  # as posattn-score reads them: two lines
    assert len(translated(monkeypatch, trained / "out", broken)) == 2
    assert translated(monkeypatch, trained / "out", [f"{lines[0]}\r"]) == expected[:1]
    shown = translated(
        monkeypatch, trained / "out", lines[:1], "--alternatives", 3, "--beam", 4, "--scores"
    )
    scores, texts = zip(*(line.split("\t") for line in shown), strict=True)
    assert len(texts) == 3 and texts[0] == translator.translate(lines[:1], beam=4)[0]
    assert sorted(map(float, scores), reverse=True) == list(map(float, scores))
    assert json.loads((trained / "out/exported.json").read_text())["difference"] < 1e-4


def test_neither_torch_nor_fairseq_is_needed(trained):
    code = "import sys; sys.modules.update(torch=None, fairseq=None); "
    code += "from fairseq_posattn.doors.exported import Translator; "
    code += f"print(Translator({str(trained / 'out')!r}).translate(['ein haus']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.bin").write_bytes(b"x"), "export the model again"),
        (lambda folder: (folder / "model.bin").unlink(), "export the model again"),
        (lambda folder: (folder / "exported.json").unlink(), "there is no exported.json"),
        (lambda folder: (folder / "prepare.json").unlink(), "there is no prepare.json, so nobody"),
        (lambda folder: write(folder / "segmenter", ["x"]), "another checksum than the segmenter"),
        (lambda folder: shutil.rmtree(folder), "there is no exported.json"),
    ],
)
def test_a_damaged_folder(trained, tmp_path, damage, message):
    folder = tmp_path / "out"
    shutil.copytree(trained / "out", folder)
    damage(folder)
    with pytest.raises(InputError, match=message) as refused:
        Translator(folder)
    assert str(folder) in str(refused.value)


def test_a_long_source_is_read_whole(trained, tmp_path):
    """By itself, CTranslate2 reads 1,024 pieces."""
    folder = shutil.copytree(trained / "out", tmp_path / "out")
    about = json.loads((folder / "exported.json").read_text())
    (folder / "exported.json").write_text(json.dumps({**about, "longest": 4096}))
    lines = [" ".join(["haus"] * 1100 + [word] * 200) for word in ("haus", "ein")]
    [[first], [second]] = Translator(folder, threads=1).candidates(lines, beam=1)
    assert first.score != second.score


def test_what_cannot_be_translated(trained):
    translator = Translator(trained / "out", threads=1)
    long = " ".join(["haus"] * 1100)
    with pytest.raises(
        InputError, match=r"line 8: it has [\d,]+ pieces, but the model takes 1,023"
    ):
        translator.translate(["ein haus", long], first=7)
    with pytest.raises(InputError, match="a beam of 2 has no 3 alternatives"):
        translator.translate(["ein haus"], beam=2, alternatives=3)


def test_another_result_there_is_refused(trained, tmp_path, monkeypatch):
    """A model that computes something else there leaves no folder."""
    monkeypatch.setattr(Converter, "fold_biaffine", None)
    monkeypatch.setattr(Converter, "norm", lambda self, spec, module: broken(self, spec, module))
    done = posattn(
        *("export", "ctranslate2", trained / "run/checkpoint_last.pt"),
        *("--out", tmp_path / "out", "--sentences", 2),
    )
    assert done.code == 1 and "log-probability of a piece is off by" in done.err
    assert not (tmp_path / "out").exists()


def broken(converter, spec, module):
    spec.gamma, spec.beta = 1.01 * converter.take(module.weight), converter.take(module.bias)


@pytest.mark.long
def test_the_benchmark_of_exported_models(trained):
    rows = trained / "rows.json"
    done = run(
        *(sys.executable, ROOT / "recipes/benchmark/exported_speed.py", trained / "data", "--cpu"),
        *("--path", trained / "run/checkpoint_last.pt", "--raw", trained / "tidy/test"),
        *("--rounds", 2, "--beam", 2, "--json", rows),
    )
    found = {row["with"]: row for row in json.loads(rows.read_text())}
    assert [*found] == [
        *("fairseq, float32", "fairseq, --int8", "CTranslate2, float32", "CTranslate2, int8")
    ], done.stdout
    assert found["fairseq, float32"]["bleu"] == pytest.approx(found["CTranslate2, float32"]["bleu"])
    for row in found.values():
        assert row["low"] <= row["ratio"] <= row["high"] and row["speed"] > 0
