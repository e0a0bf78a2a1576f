"""Write an HTML report that compares systems, from the JSON files of posattn score.

posattn report SYSTEM.json ... --out report.html
"""

from fairseq_posattn.errors import lab_extra
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.requests import asked
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.report.systems import ReportRequest, read_systems


def main() -> None:
    request = asked(ReportRequest, __doc__)
    with lab_extra("the report needs"):
        from fairseq_posattn.report.report import page
    extra = []
    with locked(request.out):
        if request.probes:
            from fairseq_posattn.probing.report import section
            from fairseq_posattn.probing.results import read_probes

            extra.append(section([read_probes(path) for path in request.probes], request.probes))
        text = page(read_systems(request.systems), visible(request.title), extra)
        with written_whole(request.out) as file:
            file.write(text)


if __name__ == "__main__":
    run(main)
