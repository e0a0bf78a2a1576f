"""Random models of transformers, and batches with trees for them."""

import torch
import transformers as hf

KEYS = {"vocab_size": 60, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
HALVES = {f"{side}_{name}": size for side in ("encoder", "decoder")
          for name, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}  # fmt: skip
SEQ2SEQ = {**KEYS, **HALVES, "d_model": 32, "max_position_embeddings": 64, "dropout": 0.0}
SEQ2SEQ |= {"decoder_start_token_id": 2, "forced_eos_token_id": None}
T5 = {**KEYS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
T5 |= {"decoder_start_token_id": 2, "dropout_rate": 0.0}
BERT = {**KEYS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT |= {"intermediate_size": 48, "max_position_embeddings": 64}
FAMILIES = {
    "Marian": ("MarianMTModel", "MarianConfig", SEQ2SEQ),
    "Bart": ("BartForConditionalGeneration", "BartConfig", SEQ2SEQ),
    "MBart": ("MBartForConditionalGeneration", "MBartConfig", SEQ2SEQ),
    "M2M100": ("M2M100ForConditionalGeneration", "M2M100Config", SEQ2SEQ),  # and NLLB
    "T5": ("T5ForConditionalGeneration", "T5Config", T5),
    "Bert": ("BertModel", "BertConfig", BERT),
    "Roberta": ("RobertaModel", "RobertaConfig", BERT),
}
WITH_DECODER = [name for name in FAMILIES if "ert" not in name]
LENGTHS = (9, 6, 4)


def random_model(name: str, **others):
    kind, config, options = FAMILIES[name]
    torch.manual_seed(0)
    model = getattr(hf, kind)(getattr(hf, config)(**{**options, **others})).eval()
    for key, parameter in model.named_parameters():
        if "embed_positions" not in key:  # Marian's are computed, and not saved
            torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.3)
    return model


def batch(left: bool = False, rows=range(3)) -> dict:
    """Three sentences of different lengths, with chains of two-piece words as trees."""
    dice = torch.Generator().manual_seed(1)
    width = max(LENGTHS[row] for row in rows)
    ids, mask = torch.ones(3, width).long(), torch.zeros(3, width).long()
    tree = torch.arange(width).repeat(3, 2, 1)
    tree[:, 0] = -1
    for row in range(3):
        length = LENGTHS[row]
        pieces = torch.randint(4, 60, (length,), generator=dice)
        if row not in rows:
            continue
        place = slice(width - length, width) if left else slice(length)
        ids[row, place], mask[row, place] = pieces, 1
        words = torch.arange(length) // 2
        tree[row, 0, place] = torch.cat([words[:-1], words.max()[None] + 1])
        tree[row, 1, 1 : int(words.max()) + 1] = torch.arange(int(words.max()))
    chosen = list(rows)
    return {"input_ids": ids[chosen], "attention_mask": mask[chosen], "source_tree": tree[chosen]}


def outputs(model, given: dict, trees: bool = True) -> torch.Tensor:
    given = {k: v for k, v in given.items() if trees or k != "source_tree"}
    if model.config.is_encoder_decoder:
        dice = torch.Generator().manual_seed(2)
        rows = len(given["input_ids"])
        written = torch.randint(4, 60, (3, 7), generator=dice)[-rows:]
        return model(**given, decoder_input_ids=written).logits
    return model(**given).last_hidden_state
