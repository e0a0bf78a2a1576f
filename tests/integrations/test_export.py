"""Models go out to CTranslate2: what it computes there, what is refused, and the folder."""

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("ctranslate2")
import ctranslate2
from fairseq.models.transformer import TransformerModel

from fairseq_posattn.cli import translate
from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.integrations import export
from fairseq_posattn.integrations.converter import Converter, Refused
from fairseq_posattn.integrations.exported import Translator
from support.commands import ROOT, run
from support.files import lines_of, write
from support.in_process import call, posattn
from support.random_model import build
from support.raw_corpus import write_raw

EXPORTED = {"relative", "t5_bias", "rope", "temperature", "tree_supervised"}
LENGTHS = (5, 9, 30, 150, 192)  # beyond the last bucket of t5_bias


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
    with pytest.raises(Refused, match=rf"CTranslate2 does not support .*{name}"):
        Converter(loaded).specification()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder_positions": "sequence", "decoder_positions": "sequence"},
        {"encoder_learned_pos": True, "encoder_positions": "sequence"},
        {"encoder_normalize_before": True, "activation_fn": "gelu"},
        {"layernorm_embedding": True, "no_scale_embedding": True},
        {"share_decoder_input_output_embed": True, "decoder_layers": 1},
        {"encoder_attention": "relative + temperature + tree_supervised@0"},
        {"encoder_attention": "relative + rope", "decoder_attention": "t5_bias + rope"},
        {"encoder_attention": "relative@0 + t5_bias@1"},
        {"encoder_attention": "relative(max=3)@0 + rope(base=9)@1"},
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
            "--encoder-positions 'sequence' with --encoder-attention 'relative.*positions none",
        ),
        ({"cross_attention": "tree_walk"}, r"models that read trees \(.*tree_walk"),
        ({"encoder_attention": "relative(heads=1)"}, "'relative' on only some heads; train it on"),
        ({"decoder_attention": "alibi@1"}, "alibi in only some layers; train with it in all lay"),
        (
            {"encoder_attention": "tree_supervised(scores=biaffine)@0 + relative@0"},
            "with scores=biaffine in the same layer as",
        ),
        ({"encoder_attention": "relative + t5_bias"}, "'relative' and 't5_bias' in one layer"),
        ({"no_cross_attention": True}, "--no-cross-attention; train without it"),
        ({"max_target_positions": 1}, "models with a single position"),
        ({"activation_fn": "tanh"}, "--activation-fn tanh; train with one of relu, gelu"),
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


def saved(loaded: Loaded, folder: Path):
    spec = Converter(loaded).specification()
    spec.validate()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)


def test_words_that_other_programs_reserve(tmp_path):
    """`<blank>` is a word like others, and no word of a text is padding."""
    loaded = build()
    loaded.task.source_dictionary.add_symbol("<blank>", overwrite=True)
    loaded.task.source_dictionary.symbols[7] = "<blank>"
    loaded.task.source_dictionary.symbols.pop()
    model = saved(loaded, tmp_path)
    pairs = [[export.Symbol(7, "<blank>")], [export.Symbol(3, "<pad>")], [export.Symbol(2, "</s>")]]
    pairs = [export.Pair(source, pairs[0]) for source in pairs]
    assert export.largest_difference(loaded, model, pairs) < 1e-5


def test_a_word_that_the_vocabulary_has_twice():
    loaded = build()
    loaded.task.source_dictionary.symbols[9] = "w1"
    with pytest.raises(Refused, match="a vocabulary that contains 'w1' twice"):
        Converter(loaded).specification()


@pytest.mark.parametrize("positions", [(12, 60), (2, 2), (200, 3), (3, 200)])
def test_the_proof_tries_all_lengths_and_symbols(positions, tmp_path):
    sizes = dict(zip(("max_source_positions", "max_target_positions"), positions, strict=True))
    loaded = build(encoder_positions="sequence", encoder_learned_pos=True, **sizes)
    pairs = export.synthetic_pairs(loaded)
    for side, longest in zip(zip(*pairs, strict=True), positions, strict=True):
        assert {len(sentence) for sentence in side} >= set(range(1, min(longest, 32)))
        assert max(map(len, side)) == longest - 1
        tried = {symbol for sentence in side for symbol in sentence}
        assert {symbol.number for symbol in tried} == {*range(64)} - {1}
        assert (3, export.UNKNOWN) in tried and (3, "<unk>") in tried
    assert export.largest_difference(loaded, saved(loaded, tmp_path), pairs) < 1e-5


def test_the_proof_finds_what_no_test_sentence_shows(tmp_path):
    loaded = build(decoder_attention="t5_bias", encoder_positions="sequence")
    model = saved(loaded, tmp_path)
    pairs = export.synthetic_pairs(loaded)
    with torch.no_grad():
        loaded.model.encoder.embed_tokens.weight[50] += 1
    assert export.largest_difference(loaded, model, pairs) > 1e-2


def test_weights_of_which_nothing_can_be_computed(tmp_path):
    loaded = build()
    with torch.no_grad():
        loaded.model.decoder.layers[1].fc1.weight.fill_(1e30)
    model = saved(loaded, tmp_path)
    with pytest.raises(InputError, match="the model's log-probabilities are not finite"):
        export.largest_difference(loaded, model, export.synthetic_pairs(loaded))


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
    train(folder, folder / "run", "--encoder-attention", "relative", "--max-update", 30)
    done = posattn(
        *("export", "ctranslate2", folder / "run/checkpoint_last.pt"),
        *("--out", folder / "out", "--quantization", "int8", "--sentences", 5),
    )
    assert done.code == 0, done.err
    assert "on 5 sentences, log-probabilities of subword units differ by at most" in done.out
    return folder


def train(folder, run, *options):
    call(
        *("train", folder / "data", "--task", "structured_translation", "--num-workers", 0),
        *("--arch", "posattn_no_positions_tiny", "--encoder-layers", 2, "--decoder-layers", 2),
        *("--optimizer", "adam", "--lr", "3e-3", "--max-tokens", 800, "--cpu", "--save-dir", run),
        *("--disable-validation", "--no-epoch-checkpoints", *options),
    )


def translated(monkeypatch, folder, lines, *options) -> list[str]:
    text = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "argv", ["posattn translate", *map(str, (folder, *options))])
    translate.main()
    return written.getvalue().splitlines()


@pytest.mark.long(ci=True)
def test_text_goes_in_and_out(trained, monkeypatch):
    lines = lines_of(trained / "tidy/test.de")[:5]
    translator = Translator(trained / "out", threads=1)
    expected = translator.translate(lines)
    assert translated(monkeypatch, trained / "out", lines, "--batch", 2) == expected
    assert translator.translate(["", *lines[:1]])[1] == expected[0]
    broken = [lines[0].replace(" ", "\r", 1), lines[1]]  # as posattn score reads them: two lines
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
    code += "from fairseq_posattn.integrations.exported import Translator; "
    code += f"print(Translator({str(trained / 'out')!r}).translate(['ein haus']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['")


def changed(name, *change):
    """Replace a part of a file by one that is as long."""

    def damage(folder):
        content = (folder / name).read_bytes()
        assert content.count(change[0]) > 0
        (folder / name).write_bytes(content.replace(*change, 1))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed("model.bin", b"decoder", b"encoder"), "model.bin was changed"),
        (lambda folder: (folder / "model.bin").unlink(), "model.bin is missing"),
        (changed("config.json", b'"</s>"', b'"<s>"'), "config.json was changed"),
        (changed("shared_vocabulary.json", b"a", b"e"), "shared_vocabulary.json was"),
        (changed("exported.json", b'"longest": 1024', b'"longest": 9999'), "exported.json was"),
        (changed("exported.json", b'"checksum"', b'"something"'), "an earlier version exported"),
        (lambda folder: (folder / "exported.json").unlink(), "out contains no exported.json"),
        (lambda folder: (folder / "prepare.json").unlink(), "prepare.json is missing"),
        (lambda folder: write(folder / "segmenter", ["x"]), "segmenter was changed"),
        (lambda folder: shutil.rmtree(folder), "out contains no exported.json"),
    ],
)
def test_a_damaged_folder(trained, tmp_path, damage, message):
    folder = shutil.copytree(trained / "out", tmp_path / "out")
    damage(folder)
    with pytest.raises(InputError, match=message) as refused:
        Translator(folder)
    assert str(folder) in str(refused.value)


def test_other_files_in_the_folder_are_not_read(trained, tmp_path):
    folder = shutil.copytree(trained / "out", tmp_path / "out")
    (folder / "vmap.txt").write_text("x")
    (folder / "source_vocabulary.json").write_text('["x"]')
    lines = lines_of(trained / "tidy/test.de")[:3]
    found = [Translator(one, threads=1).translate(lines) for one in (folder, trained / "out")]
    assert found[0] == found[1]


def test_data_without_a_record_of_the_preparation(trained, tmp_path):
    data = shutil.copytree(trained / "data", tmp_path / "data")
    (data / "prepare.json").unlink()
    done = exported(trained, tmp_path / "out", "--data", data)
    assert done.code == 0, done.err
    shutil.copy(trained / "data/prepare.json", tmp_path / "out")  # it was not exported
    with pytest.raises(InputError, match=r"out contains no prepare\.json, which describes"):
        Translator(tmp_path / "out")


def exported(trained, out, *options):
    path = trained / "run/checkpoint_last.pt"
    return posattn("export", "ctranslate2", path, "--out", out, "--sentences", 2, *options)


def test_text_of_which_case_was_ignored(trained, tmp_path):
    """The source of data with --lowercase is in lower case, also where nothing is parsed."""
    about = json.loads((trained / "data/prepare.json").read_text())
    data = shutil.copytree(trained / "data", tmp_path / "data")
    (data / "prepare.json").write_text(json.dumps({**about, "lowercase": True}))
    assert exported(trained, tmp_path / "out", "--data", data).code == 0
    upper, lower = Translator(tmp_path / "out", threads=1).translate(["Der Hund", "der hund"])
    assert upper == lower


def test_a_byte_order_mark_is_no_part_of_the_first_word(trained, monkeypatch):
    lines = lines_of(trained / "tidy/test.de")[:2]
    expected = translated(monkeypatch, trained / "out", lines, "--scores")
    marked = [f"\ufeff{lines[0]}", *lines[1:]]
    assert translated(monkeypatch, trained / "out", marked, "--scores") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lenpen", "nan"), "--lenpen: expected a number from -10 to 10, found 'nan'"),
        (("--beam", 10**9), "--beam: expected a whole number from 1 to 1,000"),
        (("--alternatives", 0), "--alternatives: expected a whole number from 1 to 1,000"),
        (("--threads", "9" * 5000), "--threads: "),
    ],
)
def test_numbers_that_make_no_sense(options, message, trained):
    done = posattn("translate", trained / "out", *options, input=b"ein haus\n")
    assert done.code == 2 and done.out == ""
    assert message in done.err and len(done.err.splitlines()[-1]) <= 300


def test_more_threads_than_cores_are_not_used(trained):
    done = posattn("translate", trained / "out", "--threads", 99_999, input=b"ein haus\n")
    assert done.code == 0 and len(done.out.splitlines()) == 1


def test_it_is_said_at_once_that_ctranslate2_is_missing():
    code = "import sys; sys.modules.update(torch=None, ctranslate2=None); "
    code += "sys.argv[1:] = ['ctranslate2', 'x.pt', '--out', 'x']; "
    code += "from fairseq_posattn.cli.main import function_of; function_of('export')()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.startswith("error: CTranslate2 is not installed; run pip install")


def test_a_model_with_few_positions(trained, tmp_path):
    """fairseq shortens translations, and the proof takes the sentences that fit."""
    few = ("--max-source-positions", 30, "--max-target-positions", 30)
    train(trained, tmp_path / "run", "--encoder-attention", "", *few, "--max-update", 1)
    asked = ("ctranslate2", tmp_path / "run/checkpoint_last.pt", "--out", tmp_path / "out")
    done = posattn("export", *asked)
    assert done.code == 0, done.err
    assert 0 < json.loads((tmp_path / "out/exported.json").read_text())["sentences"] < 24
    assert len(Translator(tmp_path / "out", threads=1).translate(["ein haus", "der hund"])) == 2


def test_a_long_source_is_read_whole(trained):
    """By itself, CTranslate2 reads 1,024 pieces."""
    translator = Translator(trained / "out", threads=1)
    translator.about = replace(translator.about, longest=4096)
    lines = [" ".join(["haus"] * 1100 + [word] * 200) for word in ("haus", "ein")]
    [[first], [second]] = translator.candidates(lines, beam=1)
    assert first.score != second.score


def test_what_cannot_be_translated(trained):
    translator = Translator(trained / "out", threads=1)
    long = " ".join(["haus"] * 1100)
    with pytest.raises(
        InputError, match=r"line 8 has [\d,]+ pieces, but the model accepts at most 1,023"
    ):
        translator.translate(["ein haus", long], first=7)
    with pytest.raises(InputError, match="a beam of 2 cannot yield 3 alternatives"):
        translator.translate(["ein haus"], beam=2, alternatives=3)


@pytest.mark.long(ci=True)
def test_another_result_there_is_refused(trained, tmp_path, monkeypatch):
    """A model that computes something else there leaves no folder."""
    monkeypatch.setattr(Converter, "fold_biaffine", None)
    monkeypatch.setattr(Converter, "norm", lambda self, spec, module: broken(self, spec, module))
    done = exported(trained, tmp_path / "out")
    assert done.code == 1 and "log-probability of a token differs from the model's by" in done.err
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
