"""Write an HTML report that compares systems, from the JSON files of posattn score.

posattn report SYSTEM.json ... --out report.html
"""

from fairseq_posattn.errors import lab_extra
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.report.systems import ReportRequest


def main() -> None:
    request = asked(ReportRequest, __doc__)
    with lab_extra("the report needs"):
        from fairseq_posattn.report.report import write_report
    extra = []
    if request.probes:
        from fairseq_posattn.probing.report import section
        from fairseq_posattn.probing.results import read_probes

        extra.append(section([read_probes(path) for path in request.probes], request.probes))
    write_report(request, extra)


if __name__ == "__main__":
    run(main)
