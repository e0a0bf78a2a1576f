"""The posattn_transformer model: a Transformer with configurable positions and attention."""

import logging
from argparse import ArgumentTypeError
from collections.abc import Sequence
from functools import partial

from fairseq import hub_utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerModelBase,
    transformer_legacy,
)
from fairseq.modules.fairseq_dropout import FairseqDropout
from hydra.core.hydra_config import HydraConfig
from torch import Tensor, nn

from fairseq_posattn.core.attention import AttentionSpecification, CrossSpecification
from fairseq_posattn.core.attention.registry import describe as describe_attention
from fairseq_posattn.core.dropout import fast_dropout
from fairseq_posattn.core.positions.registry import PositionSpecification
from fairseq_posattn.core.positions.registry import describe as describe_positions
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.config import PosattnTransformerConfig, plain_namespace
from fairseq_posattn.fairseq_plugin.models.decoder import PosattnDecoder
from fairseq_posattn.fairseq_plugin.models.encoder import PosattnEncoder
from fairseq_posattn.fairseq_plugin.models.positions import refuse_contradiction, text_of
from fairseq_posattn.fairseq_plugin.models.preset_files import fill_in, read_group

logger = logging.getLogger(__name__)

MODELS = read_group("model")
SIZES = read_group("size")
SUFFIXES = {"": "wmt_en_de", **{f"_{size}": size for size in SIZES}}
# csan_2d needs at least 3 heads, but the size `tiny` has only 2.
EXCEPTIONS = {("csan_2d", "tiny"): {"encoder_attention_heads": 4}}


@register_model("posattn_transformer", dataclass=PosattnTransformerConfig)
class PosattnTransformerModel(TransformerModelBase):
    """A translation Transformer with configurable positions and attention mechanisms.

    Models that read trees require the structured_translation task.

        posattn train DATA --task structured_translation --arch posattn_transformer \\
            --encoder-attention tree_relative --max-tokens 4096
    """

    @classmethod
    def add_args(cls, parser):
        """Add all options to the parser.

        If the value of a position or attention option is `help`, an explanation is printed.
        """
        gen_parser_from_dataclass(parser, PosattnTransformerConfig(), delete_default=True)
        options = parser._option_string_actions
        for side in ("encoder", "decoder"):
            help = partial(describe_attention, side)
            options[f"--{side}-attention"].type = helpful(AttentionSpecification, help)
            help = partial(describe_positions, side)
            options[f"--{side}-positions"].type = helpful(PositionSpecification, help)
        help = partial(describe_attention, "cross")
        options["--cross-attention"].type = helpful(CrossSpecification, help)

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model; raise an InputError for unsupported or contradictory options."""
        args = plain_namespace(cfg)
        refuse_preset_under_hydra(getattr(args, "_name", None))
        refuse_what_cannot_work(args)
        for name in ("decoder_input_dim", "decoder_output_dim"):
            if getattr(args, name, None) is None:
                setattr(args, name, args.decoder_embed_dim)
        add_label_sizes(args, task)
        model = super().build_model(TransformerConfig.from_namespace(args), task)
        check_task(model.encoder, task)
        if getattr(args, "fast_dropout", False):  # older checkpoints have no such option
            use_fast_dropout(model)
        logger.info(
            "posattn_transformer: --encoder-positions '%s' --encoder-attention '%s' "
            "--decoder-positions '%s' --decoder-attention '%s'%s",
            *(model.encoder.positions, model.encoder.attention),
            *(model.decoder.positions, model.decoder.attention),
            f" --cross-attention '{model.decoder.cross}'" if model.decoder.cross.uses else "",
        )
        return model

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return PosattnEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return PosattnDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def forward(
        self,
        src_tokens,
        src_lengths,
        prev_output_tokens,
        return_all_hiddens=True,
        features_only=False,
        source_tree=None,
        **decoder_options,
    ):
        """Return the same values as fairseq's Transformer.

        source_tree: passed to the encoder.
        """
        encoder_out = self.encoder(
            src_tokens, src_lengths, return_all_hiddens, source_tree=source_tree
        )
        x, extra = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            src_lengths=src_lengths,
            features_only=features_only,
            return_all_hiddens=return_all_hiddens,
            **decoder_options,
        )
        if "tree_supervision" in encoder_out:
            extra["tree_supervision"] = encoder_out["tree_supervision"]
        return x, extra

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """Load a model and return its `StructuredHubInterface`, which accepts trees."""
        loaded = hub_utils.from_pretrained(
            model_name_or_path, checkpoint_file, data_name_or_path, **kwargs
        )
        return StructuredHubInterface(loaded["args"], loaded["task"], loaded["models"])


def helpful(specification, describe):
    """Return an argparse type that parses a specification.

    If the value is 'help', this type prints an explanation and exits.
    """

    def read(text: str) -> str:
        if text.strip() == "help":
            print(describe())
            raise SystemExit(0)
        try:
            return str(specification(text))
        except SpecificationError as error:
            raise ArgumentTypeError(str(error)) from None

    read.__name__ = specification.__name__
    return read


def refuse_preset_under_hydra(name: str | None) -> None:
    """Raise an InputError if an --arch preset is used with hydra.

    A preset sets only options that are unset, but hydra has already set all options.
    """
    if HydraConfig.initialized() and name not in (None, "posattn_transformer"):
        raise InputError(
            f"model._name={name}: fairseq-hydra-train does not support the presets of --arch; "
            "use a configuration, such as model=structural size=wmt_en_de, with --config-dir "
            "fairseq_posattn/fairseq_plugin/config"
        )


def refuse_what_cannot_work(args) -> None:
    """Raise an InputError for fairseq options that posattn_transformer does not support."""
    refused = {
        "quant_noise_pq": "--quant-noise-pq",
        "quant_noise_scalar": "--quant-noise-scalar",
        "encoder_xformers_att_config": "--encoder-xformers-att-config",
        "char_inputs": "char_inputs",
    }
    for option, name in refused.items():
        if getattr(args, option, None):
            raise InputError(f"{name} is not supported by posattn_transformer; omit this option")


def add_label_sizes(args, task) -> None:
    """Add the sizes and the fingerprint of the label dictionaries to `args`.

    Nothing is added if the encoder reads no labels.
    """
    needed = AttentionSpecification(getattr(args, "encoder_attention", None) or "").needs_labels
    needed |= PositionSpecification(text_of(args, "encoder")).needs_labels
    if needed and hasattr(task, "label_sizes"):  # `check_task` refuses other tasks
        sizes = task.label_sizes(sorted(needed))
        args.source_relations, args.source_tags = sizes["relations"], sizes["tags"]
        args.source_labels = task.label_dictionaries.fingerprint.decode()


def check_task(encoder: PosattnEncoder, task) -> None:
    """Raise an InputError if the model reads trees but the task does not load them."""
    if encoder.needs_tree and not getattr(task, "provides_trees", False):
        raise InputError(
            f"--encoder-positions '{encoder.positions}' --encoder-attention '{encoder.attention}'"
            f"{encoder.crossing} reads trees, which {type(task).__name__} does not load; "
            "use --task structured_translation"
        )


class FastDropout(FairseqDropout):
    """fairseq's dropout with a faster implementation for CPUs."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """Apply dropout during training and, with --retain-dropout, during inference."""
        on = self.p > 0 and (self.training or self.apply_during_inference)
        return fast_dropout(x, self.p) if on else x


def use_fast_dropout(model: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is FairseqDropout:
                setattr(parent, name, FastDropout(child.p, child.module_name))


def register_size(model: str, size: str, name: str) -> None:
    """Register a model of a given size as an --arch called `name`."""
    preset = {**MODELS[model], **SIZES[size], **EXCEPTIONS.get((model, size), {})}
    attention = preset.pop("encoder_attention", "")

    def architecture(args):
        refuse_contradiction(args)
        fill_in(args, preset)
        fill_in(args, {"encoder_attention": within(args.encoder_layers, attention)})
        transformer_legacy.base_architecture(args)  # fairseq's defaults of all other options

    register_model_architecture("posattn_transformer", name)(architecture)


def within(layers: int, attention: str) -> str:
    """Limit the layer range @0-2 in a specification to the encoder's number of layers."""
    return attention.replace("@0-2", f"@0-{layers - 1}") if layers < 3 else attention


# fairseq registers an empty function for the --arch of the same name; replace it.
ARCH_CONFIG_REGISTRY["posattn_transformer"] = refuse_contradiction

for _model in MODELS:
    for _suffix, _size in SUFFIXES.items():
        if (_model, _suffix) != ("transformer", ""):  # posattn_transformer, registered above
            register_size(_model, _size, f"posattn_{_model}{_suffix}")


class StructuredHubInterface(hub_utils.GeneratorHubInterface):
    """fairseq's hub interface; trees are passed by the caller or supplied by the tree provider.

    model = PosattnTransformerModel.from_pretrained("run", "averaged.pt", "data")
    model.translate(["Das ist gut ."], trees=[[3, 3, 0, 3]])
    """

    def __init__(self, cfg, task, models):
        super().__init__(cfg, task, models)
        if self.bpe is None and hasattr(task, "new_sentences"):
            self.bpe = task.build_bpe(None)  # segments text like the training data
        else:
            task.own_bpe = True

    def sample(
        self,
        sentences: list[str],
        beam: int = 1,
        verbose: bool = False,
        trees: Sequence[Sequence[int] | None] | None = None,
        **kwargs,
    ) -> list[str]:
        """Return the translation of each sentence.

        trees: for each sentence, the index of each word's parent, starting from 1; 0 marks the
            root. If None, the task's tree provider supplies the trees.
        """
        if isinstance(sentences, str):
            trees = None if trees is None else [trees]
            return self.sample([sentences], beam, verbose, trees, **kwargs)[0]
        segmented = self.segmented(sentences, trees)
        hypotheses = self.generate([self.binarize(s) for s in segmented], beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]

    def segmented(self, sentences: list[str], trees) -> list[str]:
        """Return the pieces of each sentence, and queue the trees of the sentences in the task."""

        def encode(sentence: str) -> str:
            return self.apply_bpe(self.tokenize(sentence))

        if hasattr(self.task, "new_sentences"):
            return self.task.new_sentences(sentences, encode, trees)
        return [encode(sentence) for sentence in sentences]
