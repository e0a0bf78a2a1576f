"""set_up of recipes/common.sh, run in copies of the checkout that need no network.

Where an environment is needed, `environment` makes one whose python passes everything on to the
Python of the tests and keeps a list of the calls, with a pip that does only what PIP_SAYS says.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from fairseq_posattn.io.version import __version__
from support.commands import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = "awk bash cat cp df dirname flock grep mktemp rm sha256sum sleep tail"
NOTHING_LISTENS = "http://127.0.0.1:9/simple"

PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>'{calls}'
if [[ "$1 $2" == '-m pip' ]]; then
    [[ $3 != --version ]] || exit 0
    cp "${{PIP_CONSTRAINT#file://}}" '{calls}.pins'
    sleep "${{PIP_TAKES:-0}}"
    printf '%s\\n' "${{PIP_SAYS:-}}"
    [[ -z ${{PIP_SAYS:-}} ]]
else
    exec '{python}' "$@"
fi
"""


class Checkout:
    """This class has a copy of the files of the set-up, and the commands to run in it."""

    def __init__(self, folder: Path, tools: Path):
        self.folder, self.tools = folder, tools
        self.environment = folder.parent / "environment"
        self.stamp = self.environment / ".fairseq_posattn"
        self.calls_file = folder.parent / "calls"

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def require(self, *requirements: str) -> None:
        project = f"[project]\ndependencies = {list(requirements)}\n"
        self.write("pyproject.toml", f"{project}optional-dependencies = {{ test = [] }}\n")

    def command(self, name: str, text: str) -> Path:
        path = self.tools / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
        return path

    def activate(self) -> dict[str, str]:
        python = self.environment / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(PYTHON.format(calls=self.calls_file, python=sys.executable))
        python.chmod(0o755)
        return {"VIRTUAL_ENV": str(self.environment), "PYTHONPATH": str(self.folder)}

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    def installations(self) -> list[str]:
        return [call for call in self.calls() if call.startswith("-m pip install")]

    def start(self, *extras: str, path: str = "", **variables: str) -> subprocess.Popen:
        script = '. recipes/common.sh; set_up "$@"; command -v python'
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script, "set_up", *extras],
            cwd=self.folder,
            env={
                "HOME": str(self.folder.parent),
                "TMPDIR": str(self.folder.parent),
                "PATH": f"{self.tools}{path}",
                "PIP_CONFIG_FILE": os.devnull,
                **variables,
            },
            stdin=subprocess.DEVNULL,
            # tests that run in the background inherit that SIGINT is ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def set_up(self, *extras: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*extras, **variables)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out.strip(), err

    def failure(self, *extras: str, **variables: str) -> str:
        """The one line that the set-up ends with when it fails."""
        code, out, err = self.set_up(*extras, **variables)
        assert code != 0
        assert out == ""
        assert all(line.startswith("set-up: ") for line in err.splitlines()), err
        assert not self.stamp.exists()
        *progress, line = err.splitlines()
        assert all(p.endswith("...") or p.startswith("set-up: making") for p in progress), err
        return line


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "a checkout"
    (folder / "recipes").mkdir(parents=True)
    for name in ["constraints.txt", "pyproject.toml", "setup.py"]:
        shutil.copy(CHECKOUT / name, folder)
    for name in ["common.sh", "environment.py"]:
        shutil.copy(CHECKOUT / "recipes" / name, folder / "recipes")
    (folder / "fairseq_posattn").mkdir()
    (folder / "fairseq_posattn" / "__init__.py").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS.split():
        (tools / tool).symlink_to(shutil.which(tool))
    copy = Checkout(folder, tools)
    copy.command("df", "echo header; echo disk 100 0 99999999 0% /")
    copy.command("g++", "true")
    return copy


# Finding a Python


def test_no_python(checkout):
    line = checkout.failure()
    assert "found no python3, need Python 3.11 to 3.13: install one" in line


@pytest.mark.parametrize("version", ["3.9", "3.14"])
def test_wrong_python_that_is_asked_for(checkout, version):
    path = checkout.command("other", f"echo {version}")
    line = checkout.failure(PYTHON=str(path))
    assert f"found Python {version} ({path}), need Python 3.11 to 3.13: set PYTHON" in line


def test_a_python_that_is_not_there(checkout):
    assert "PYTHON=python4 is no program" in checkout.failure(PYTHON="python4")


def test_python_without_venv(checkout):
    checkout.command("python3", "[[ $2 == *version_info* ]] && echo 3.12")
    line = checkout.failure()
    assert "python3 has no venv module: install it" in line
    assert "apt install python3.12-venv" in line


# What can be missing or full


@pytest.mark.long
def test_index_out_of_reach(checkout):
    line = checkout.failure("test", PYTHON=sys.executable, PIP_INDEX_URL=NOTHING_LISTENS)
    assert "installing the build tools failed, because the package index is out of reach" in line
    assert Path(line.split("see ")[-1]).is_file()
    assert not (checkout.folder / ".venv" / ".fairseq_posattn").exists()


def test_full_disk(checkout):
    checkout.command("df", "echo header; echo disk 100 99 1024000 99% /")
    line = checkout.failure(PYTHON=sys.executable)
    assert "disk full:" in line
    assert "has 1000 MiB free, about 3 GiB are needed: free some space" in line
    assert not (checkout.folder / ".venv").exists()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the package index has fairseq built")
def test_no_compiler(checkout):
    checkout.require("fairseq-nowhere")
    variables = checkout.activate()
    (checkout.tools / "g++").unlink()
    assert (
        "there is no C++ compiler (g++), which building fairseq needs: install it"
        in checkout.failure(**variables)
    )
    assert not checkout.installations()


@pytest.mark.parametrize(
    "says, line",
    [
        ("ERROR: [Errno 28] No space left on device", "because the disk is full: free some space"),
        ("WARNING: Retrying (Retry(total=0)) after connection broken by x", "out of reach: check"),
        ("ERROR: Failed building wheel for fairseq", "a package could not be built; see"),
        ("ERROR: something else", "installing the build tools failed: ERROR: something else; see"),
    ],
)
def test_pip_fails(checkout, says, line):
    checkout.require("nowhere")
    assert line in checkout.failure(PIP_SAYS=says, **checkout.activate())


def test_temporary_folder_is_missing(checkout):
    line = checkout.failure(**{**checkout.activate(), "TMPDIR": "/nowhere"})
    assert "cannot write to /nowhere: free some space there or set TMPDIR" in line


# An active environment


def test_active_environment_that_has_all_is_left_alone(checkout):
    checkout.require("pytest")
    code, out, err = checkout.set_up("test", **checkout.activate())
    assert (code, out, err) == (0, str(checkout.environment / "bin" / "python"), "")
    assert not checkout.installations()
    assert not (checkout.folder / ".venv").exists()


def test_package_that_is_not_linked_is_installed_alone(checkout):
    checkout.require("pytest")
    variables = {**checkout.activate(), "PYTHONPATH": ""}
    assert checkout.set_up(**variables)[0] == 0
    (call,) = checkout.installations()
    assert call.endswith(f"--no-deps --no-build-isolation --editable {checkout.folder}")


def test_only_what_lacks_is_pinned(checkout):
    checkout.require("pytest>=1", "nowhere>=2", "hypothesis>=1000000")
    checkout.write("constraints.txt", "# comment\npytest==1.0\nnowhere==2.1\nhypothesis==1000001\n")
    assert checkout.set_up("test", **checkout.activate())[0] == 0
    assert checkout.installations()[-1].endswith(f"--editable {checkout.folder}[test]")
    pins = Path(f"{checkout.calls_file}.pins").read_text().split()
    assert pins == ["nowhere==2.1", "hypothesis==1000001"]


def test_conda_environment_counts_but_not_its_base(checkout):
    checkout.require("pytest")
    conda = {"PYTHONPATH": checkout.activate()["PYTHONPATH"]}
    conda["CONDA_PREFIX"] = str(checkout.environment)
    assert "found no python3" in checkout.failure(CONDA_DEFAULT_ENV="base", **conda)
    assert checkout.set_up(CONDA_DEFAULT_ENV="work", **conda)[0] == 0


def test_active_environment_that_is_gone(checkout):
    line = checkout.failure(VIRTUAL_ENV="/nowhere")
    assert "the active environment /nowhere has no bin/python: deactivate it" in line


# The stamp


def test_second_run_does_nothing(checkout):
    checkout.require("pytest")
    variables = checkout.activate()
    assert checkout.set_up("test", **variables)[0] == 0
    calls = checkout.calls()
    assert checkout.set_up("test", **variables)[0] == 0
    assert checkout.set_up(**variables)[0] == 0
    assert checkout.calls() == calls


def test_another_extra_or_a_change_is_looked_at_again(checkout):
    checkout.require("pytest")
    variables = checkout.activate()
    seen = 0
    for step in ["first", "extra", "pins", "moved"]:
        if step == "pins":
            checkout.write("constraints.txt", "pytest==1.0\n")
        if step == "moved":
            checkout.folder = checkout.folder.rename(checkout.folder.parent / "moved")
            variables["PYTHONPATH"] = str(checkout.folder)
        assert checkout.set_up(*(["test"] if step == "extra" else []), **variables)[0] == 0
        assert len(checkout.calls()) > seen, step
        seen = len(checkout.calls())


@pytest.mark.long
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_set_up_is_taken_up_again(checkout, kill):
    checkout.require("nowhere")
    variables = checkout.activate()
    process = checkout.start(PIP_TAKES="60", **variables)
    while not checkout.installations():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, kill)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert not checkout.stamp.exists()
    assert checkout.set_up(**variables)[0] == 0
    assert checkout.stamp.exists()


@pytest.mark.long
def test_two_runs_at_once_install_once(checkout):
    checkout.require("nowhere")
    variables = checkout.activate()
    runs = [checkout.start(PIP_TAKES="0.5", **variables) for _ in range(2)]
    errors = [run.communicate(timeout=PATIENCE)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert "waiting for the set-up of another run" in "".join(errors)
    assert len([c for c in checkout.installations() if "torch" in c]) == 1


def test_half_installed_packages_are_forgotten(checkout):
    venv = checkout.folder.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    for name in ["half", "whole"]:
        (site / f"{name}-1.0.dist-info").mkdir()
    (site / "whole-1.0.dist-info" / "RECORD").touch()
    subprocess.run(
        [venv / "bin" / "python", checkout.folder / "recipes" / "environment.py", "sweep"],
        env={"PYTHONPATH": str(Path(pytest.__file__).parent.parent)},
        check=True,
    )
    assert [path.name for path in site.glob("*.dist-info")] == ["whole-1.0.dist-info"]


# The commands


def test_continuous_integration_runs_its_lane(tmp_path):
    for name, text in [(".ci/run", ""), ("tests/run.sh", "#!/bin/sh\necho ran $*\n")]:
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text or (CHECKOUT / name).read_text())
        path.chmod(0o755)
    done = subprocess.run([tmp_path / ".ci/run"], capture_output=True, text=True, cwd="/")
    assert done.stdout == "ran --ci\n"


def test_the_version_is_the_same_everywhere():
    """The package has it in a leaf that pyproject.toml names; CHANGELOG.md has it as a heading."""
    named = 'version = { attr = "fairseq_posattn.io.version.__version__" }'
    assert named in (CHECKOUT / "pyproject.toml").read_text()
    assert f"## {__version__}" in (CHECKOUT / "CHANGELOG.md").read_text()


def test_hooks_are_the_linters_of_the_tests():
    """A commit is held to what tests/run.sh holds it to."""
    config = yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())
    [hooks] = [repository["hooks"] for repository in config["repos"]]
    in_tests = (CHECKOUT / "tests/run.sh").read_text()
    linters = re.findall(r"(python -m ruff \w+|lint-imports|python -m mypy|shellcheck) ?", in_tests)
    for hook in hooks:
        assert hook["language"] == "system"
        assert any(hook["entry"].startswith(linter) for linter in linters), hook
    called = {linter for hook in hooks for linter in linters if hook["entry"].startswith(linter)}
    assert called == set(linters)


def test_requirements_are_those_of_pyproject(checkout):
    """The real file is read, with the requirements of the extra, for the Python that runs."""
    checkout.activate()
    python = checkout.environment / "bin/python"
    command = [python, "-c", "import environment as e; print(*e.declared(['plot']), sep='\\n')"]
    done = subprocess.run(command, cwd=checkout.folder / "recipes", capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert {"torch>=2.1", "numpy", "matplotlib", "jinja2"} <= set(lines), done.stderr
    assert "stanza" not in lines
    assert len([line for line in lines if line.startswith("fairseq")]) == 1
