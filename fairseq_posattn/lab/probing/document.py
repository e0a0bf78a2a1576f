"""Write docs/probe_json.md, which describes the files of posattn-probe.

python -m fairseq_posattn.lab.probing.document > docs/probe_json.md
"""

from __future__ import annotations

from fairseq_posattn.io.record_tables import tables
from fairseq_posattn.lab.probing.results import Probes

BEGIN = """\
# The JSON of posattn-probe

`posattn-probe ... --json FILE` writes it, and `posattn-probe --results` and `posattn-report \
--probes` read it. A key with a question mark may be missing; unknown keys are ignored. The \
dataclasses that check the files generate this page: \
`python -m fairseq_posattn.lab.probing.document > docs/probe_json.md`."""


def document() -> str:
    return "\n".join([BEGIN, *tables(Probes)]) + "\n"


if __name__ == "__main__":
    print(document(), end="")
