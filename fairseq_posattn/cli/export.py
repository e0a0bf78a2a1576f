"""Convert a trained model, so that another program can translate with it.

posattn export ctranslate2 averaged.pt --out exported --quantization int8

The conversion is checked: fairseq and the other program translate some sentences, and both compute
the log-probabilities of fairseq's translations. Nothing is written if these differ by more than
rounding errors, or if the model uses a mechanism that the other program does not support.
Use posattn translate to translate text with the exported folder.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.integrations.exported import ExportRequest, import_ctranslate2


def main() -> None:
    request = asked(ExportRequest, __doc__)
    import_ctranslate2()  # if it is not installed, fail before the slow import of torch
    from fairseq_posattn.integrations.export import export

    about = export(request)
    print(
        f"{request.out}: on {about.sentences:,} sentences, log-probabilities of subword units "
        f"differ by at most {about.difference:.1e}, and {about.same:,} translations are identical"
    )


if __name__ == "__main__":
    run(main)
