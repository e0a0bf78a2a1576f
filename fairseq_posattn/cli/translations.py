"""Extract translations from fairseq-generate logs, in the order of the test set.

posattn translations DATA generate.log --out translations
"""

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_together
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.scoring.generate_log import (
    TranslationsRequest,
    check_set,
    outputs,
    read_logs,
    to_text,
)
from fairseq_posattn.text import pipeline as text_pipeline


def main() -> None:
    request = asked(TranslationsRequest, __doc__)
    if request.detokenize and text_pipeline.exists(request.data):
        raise InputError(
            f"{request.data}/{text_pipeline.FILE} defines the detokeniser; leave out --detokenize"
        )
    decode = to_text(request.data, request.separator, request.detokenize)
    logs = read_logs(request.logs)
    texts = [(request.sources, outputs(logs, "S"))] if request.sources else []
    translations = [decode(pieces) for pieces in outputs(logs)]
    check_set(logs, request.data, request.gen_subset, len(translations))
    texts.append((request.out, translations))  # last, because the files are renamed in this order
    with written_together([path for path, _ in texts]) as files:
        for file, (_, lines) in zip(files, texts, strict=True):
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    run(main)
