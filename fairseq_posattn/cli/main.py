"""The command `posattn`: its subcommands, help, version and shell completion."""

import os
import platform
import signal
import sys
from functools import partial
from importlib import import_module, metadata

GROUPS = {
    "Prepare data": {
        "prepare": "turn a parallel corpus or treebanks into a data folder, in one step",
        "parse": "parse text to CoNLL-U",
        "train-parser": "train a stanza parser from a treebank",
        "trees": "replace the trees of a treebank by control trees",
        "extract": "write the words, parents and labels of CoNLL-U as plain text",
        "segment": "learn subword units, and split text into them",
        "project": "project trees from words onto subword units",
        "binarize": "build a data folder from segmented text and trees",
        "binarize-tagging": "build a data folder for a tagger",
    },
    "Train": {
        "train": "fairseq-train with the plug-in loaded",
        "validate": "fairseq-validate with the plug-in loaded",
        "average": "average the last checkpoints of a training run",
    },
    "Translate": {
        "generate": "fairseq-generate with the plug-in loaded: translate a test set",
        "interactive": "fairseq-interactive with the plug-in loaded: translate new text",
        "translations": "extract the translations from logs of generate",
        "export": "convert a model to CTranslate2",
        "translate": "translate text with an exported model",
        "tag": "tag text with a trained tagger",
    },
    "Score": {
        "score": "compute BLEU, chrF and TER, and test differences for significance",
        "sgm": "extract the plain text of a test set in NIST's SGML format",
    },
    "Compare": {
        "recipe": "train, evaluate and compare all models of an experiment",
        "report": "write an HTML report that compares systems",
    },
    "Inspect": {
        "show": "draw how mechanisms change the attention weights of a sentence",
        "examples": "translate a few sentences and store their attention weights",
        "heads": "compute statistics of each attention head on a test set",
        "probe": "probe what an encoder knows about sentences",
        "probe-tasks": "build the data for probing tasks",
    },
    "Extend": {
        "check-mechanism": "check a mechanism of your own against the mechanism contract",
    },
}
FAIRSEQ = ("train", "validate", "generate", "interactive")
WITH_PLUGIN = "POSATTN_WITH_PLUGIN"  # set for the processes that fairseq starts, one for each GPU
RELEVANT = "torch fairseq sacrebleu stanza subword-nmt sentencepiece ctranslate2 transformers numpy"
COMPLETION = """\
# Complete the subcommands and options of posattn in bash; in zsh run `bashcompinit` first:
#     eval "$(posattn --completion)"
declare -A _posattn_options
_posattn() {
    local words sub=${COMP_WORDS[1]}
    case $COMP_CWORD:$2 in
        1:*) words=$(posattn --subcommands) ;;
        *:-*)
            words=${_posattn_options[$sub]:=$(posattn "$sub" --help | grep -oEe '--[a-z0-9-]+')}
            words=$(sort -u <<<"$words")
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}
complete -o default -F _posattn posattn
"""


def subcommands() -> dict[str, str]:
    return {name: about for group in GROUPS.values() for name, about in group.items()}


def usage() -> str:
    lines = ["usage: posattn SUBCOMMAND [OPTION ...]", ""]
    lines += ["Neural machine translation with structural positions and new attention."]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<18}{about}" for name, about in group.items())]
    lines += ["", "posattn SUBCOMMAND --help   list the options of a subcommand"]
    lines += ["posattn --version           print the versions to include in a bug report"]
    lines += ["posattn --completion        print completion code for bash and zsh"]
    return "\n".join(lines)


def versions() -> str:
    from fairseq_posattn.files.version import __version__

    names = metadata.packages_distributions()  # fairseq may be installed as ve_fairseq
    lines = [f"fairseq_posattn {__version__}", f"Python {platform.python_version()}"]
    for package in RELEVANT.split():
        try:
            lines.append(f"{package} {metadata.version(names.get(package, [package])[0])}")
        except metadata.PackageNotFoundError:
            lines.append(f"{package} is not installed")
    return "\n".join([*lines, platform.platform()])


def function_of(name: str):
    """Import and return the function that runs a subcommand on `sys.argv`."""
    if name in FAIRSEQ:
        return getattr(import_module("fairseq_posattn.cli.fairseq_programs"), name)
    from fairseq_posattn.files.command_line import run

    module = import_module(f"fairseq_posattn.cli.{name.replace('-', '_')}")
    return partial(run, module.main)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    texts = {
        "--help": usage,
        "-h": usage,
        "--version": versions,
        "--completion": lambda: COMPLETION.rstrip(),
        "--subcommands": lambda: " ".join(subcommands()),
    }
    if name in texts:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly in `posattn --help | head -1`
        print(texts[name]())
        sys.exit(0 if len(sys.argv) > 1 else 2)
    if name not in subcommands():
        from difflib import get_close_matches

        near = get_close_matches(name, subcommands(), 1)
        remedy = f"did you mean {near[0]}?" if near else "posattn --help lists them"
        print(f"posattn: error: unknown subcommand {name!a}; {remedy}", file=sys.stderr)
        sys.exit(2)
    sys.argv[:2] = [f"posattn {name}"]
    if name in FAIRSEQ:
        os.environ[WITH_PLUGIN] = "yes"
    function_of(name)()


# The processes that fairseq starts import this module but do not call `main`. The plug-in is loaded
# here, because fairseq's --user-dir skips a package that is already imported.
if "__mp_main__" in sys.modules and WITH_PLUGIN in os.environ:
    import_module("fairseq_posattn.plugin")

if __name__ == "__main__":
    main()
