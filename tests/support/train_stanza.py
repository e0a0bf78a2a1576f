"""This is posattn train-parser, whose size `small` takes half a minute here."""

from fairseq_posattn.cli.train_parser import main
from fairseq_posattn.files import command_line
from fairseq_posattn.text.parsing.trainers import SIZES, Size

TOY = Size(
    "toy",
    train=300,
    dev=40,
    tokenize="--steps 60 --eval_steps 60 --batch_size 16 --hidden_dim 32 --lr0 1e-2",
    mwt="--dict_only",
    network="--num_layers 1 --hidden_dim 32 --word_emb_dim 16 --char_emb_dim 16"
    " --char_hidden_dim 32 --transformed_dim 16 --tag_emb_dim 16 --deep_biaff_hidden_dim 32"
    " --lr 1e-2 --dropout 0.2 --word_dropout 0.1",
    pos="--composite_deep_biaff_hidden_dim 16 --batch_size 32 --max_steps 40 --eval_interval 40"
    " --fix_eval_interval",
    depparse="--batch_size 400 --max_steps 60 --eval_interval 20 --optim adam --beta2 0.95"
    " --weight_decay 0 --no_plateau --no_second_optim",
)
SIZES["small"] = TOY  # which is the default

if __name__ == "__main__":
    command_line.run(main)
