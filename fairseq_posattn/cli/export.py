"""Export a trained model, so that another program can translate with it.

posattn export ctranslate2 averaged.pt --out exported --quantization int8

Both programs translate some sentences, and the other one scores our translations. Nothing is
written where they differ by more than rounding, or where the model has a mechanism that the other
program cannot express. posattn translate translates text with the folder.
"""

from __future__ import annotations

from functools import partial

from fairseq_posattn.doors.exported import ExportRequest, import_ctranslate2
from fairseq_posattn.io.argument_types import asked
from fairseq_posattn.io.command_line import run


def main() -> None:
    """Write the folder, and print how far both programs differ."""
    request = asked(ExportRequest, "posattn export", __doc__)
    import_ctranslate2()  # whether it is installed is known before torch is imported
    from fairseq_posattn.doors.export import export

    about = export(request)
    print(
        f"{request.out}: by {about.sentences:,} sentences, the log-probability of a piece differs "
        f"by {about.difference:.1e} at most, and {about.same:,} translations are the same"
    )


command = partial(run, main)
if __name__ == "__main__":
    command()
