"""set_up of recipes/common.sh, run in copies of the checkout that need no network.

Where an environment is needed, `activate` makes one whose python passes everything on to the Python
of the tests, with a pip that does nothing, beside a uv that keeps a list of its calls and does only
what UV_SAYS says. `wheels` has the real uv install from a folder of small wheels.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from fairseq_posattn.files.version import __version__
from support.commands import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = "awk bash cat cp df dirname flock grep mktemp rm sed sha256sum sleep sort tail touch tr"
NOTHING_LISTENS = "http://127.0.0.1:9/simple"

PYTHON = """#!/usr/bin/env bash
[[ "$1 $2" != '-m pip' ]] || exit 0
exec '{python}' "$@"
"""
UV = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>'{calls}'
case " $* " in
*' freeze '*) printf '%s\\n' ${{UV_HAS:-}} ;;
*' --dry-run '*) printf '%s\\n' "${{UV_PLANS:-Would make no changes}}" ;;
*)
    cp "$4" '{calls}.pins'
    sleep "${{UV_TAKES:-0}}"
    printf '%s\\n' "${{UV_SAYS:-}}"
    [[ -z ${{UV_SAYS:-}} ]]
    ;;
esac
"""
HAS = "setuptools==80.0 wheel==1.0"
LACKS = " + nowhere==1"


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
        project = f"[project]\nname = 'it'\ndependencies = {list(requirements)}\n"
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
        python.write_text(PYTHON.format(python=sys.executable))
        python.chmod(0o755)
        uv = python.with_name("uv")
        uv.write_text(UV.format(calls=self.calls_file))
        uv.chmod(0o755)
        environment = {"VIRTUAL_ENV": str(self.environment), "UV_HAS": HAS}
        return {**environment, "PYTHONPATH": str(self.folder)}

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    def installations(self) -> list[str]:
        calls = [call for call in self.calls() if call.startswith("pip install")]
        return [call for call in calls if "--dry-run" not in call]

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
        others = ("set-up: creating", "set-up: uv cannot be installed", "set-up: torch")
        assert all(p.endswith("...") or p.startswith(others) for p in progress), err
        return line


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "a checkout"
    (folder / "recipes").mkdir(parents=True)
    for name in ["constraints.txt", "pyproject.toml", "setup.py"]:
        shutil.copy(CHECKOUT / name, folder)
    shutil.copy(CHECKOUT / "recipes/common.sh", folder / "recipes")
    (folder / "fairseq_posattn").mkdir()
    (folder / "fairseq_posattn" / "__init__.py").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in [*TOOLS.split(), "uname"]:
        (tools / tool).symlink_to(shutil.which(tool))
    copy = Checkout(folder, tools)
    copy.command("df", "echo header; echo disk 100 0 99999999 0% /")
    copy.command("g++", "true")
    return copy


# Finding a Python


@pytest.mark.parametrize(
    ("python3", "chosen", "message"),
    [
        ("", "", "found no python3, need Python 3.11 to 3.13; install one"),
        ("echo 3.9", "", "found Python 3.9 (python3), need Python 3.11 to 3.13; install one"),
        ("echo 3.9", "python3", "found Python 3.9 (python3), need Python 3.11 to 3.13; set PYTHON"),
        ("echo 3.14", "python3", "found Python 3.14 (python3), need Python 3.11 to 3.13; set PYT"),
        ("", "python4", "PYTHON=python4 is not a program"),
        ("[[ $2 == *version_info* ]] && echo 3.12", "", "apt install python3.12-venv"),
    ],
)
def test_no_suitable_python(checkout, python3, chosen, message):
    if python3:
        checkout.command("python3", python3)
    assert message in checkout.failure(**({"PYTHON": chosen} if chosen else {}))
    assert not (checkout.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TMPDIR", "/nowhere", "cannot write to /nowhere; free some space there or set TMPDIR"),
        ("VIRTUAL_ENV", "/nowhere", "environment /nowhere has no bin/python; deactivate it"),
    ],
)
def test_folders_that_are_missing(checkout, name, value, message):
    assert message in checkout.failure(**{**checkout.activate(), name: value})


def test_the_active_python_is_taken(checkout):
    """It may be of any right version, even where a program of another version is there."""
    checkout.command("df", "echo header; echo disk 100 99 1024000 99% /")
    others = checkout.folder.parent / "others"
    checkout.command(
        "python3.12", f"echo called >'{others}'; [[ $2 != *version_info* ]] || echo 3.12"
    )
    for version, asked in (("3.13", False), ("3.14", True)):
        checkout.command("python3", f"[[ $2 != *version_info* ]] || echo {version}")
        full = "has 1000 MiB free, but about 3 GiB are needed; free some space"
        assert "the disk is full:" in (line := checkout.failure()) and full in line
        assert others.exists() == asked


@pytest.mark.parametrize("active", [False, True])
def test_another_python_than_that_of_the_environment(checkout, active):
    variables = checkout.activate()
    remedy = "deactivate this environment, or unset PYTHON"
    if not active:
        variables.pop("VIRTUAL_ENV")
        checkout.environment = checkout.environment.rename(checkout.folder / ".venv")
        remedy = f"delete {checkout.environment}, so that it is created again, or unset PYTHON"
    there = ".".join(map(str, sys.version_info[:2]))
    other = checkout.command("other", "echo 3.13" if there != "3.13" else "echo 3.12")
    line = checkout.failure(PYTHON=str(other), **variables)
    assert line.startswith(f"set-up: PYTHON={other} is Python 3.1")
    assert line.endswith(f"but {checkout.environment} has Python {there}; {remedy}")
    assert checkout.set_up(PYTHON=sys.executable, **variables)[0] == 0


# What can be missing or full


@pytest.mark.long
def test_index_out_of_reach(checkout):
    line = checkout.failure("test", PYTHON=sys.executable, PIP_INDEX_URL=NOTHING_LISTENS)
    assert "installing the build tools failed, because the package index is unreachable" in line
    assert Path(line.split("see ")[-1]).is_file()
    assert not (checkout.folder / ".venv" / ".fairseq_posattn").exists()


def test_no_compiler(checkout):
    """fairseq is compiled where it has no wheel, as on another machine than x86-64."""
    checkout.require("fairseq-fixed")
    variables = checkout.activate()
    checkout.command("uname", "echo Linux arm64")
    (checkout.tools / "g++").unlink()
    assert (
        "there is no C++ compiler (g++), which building fairseq needs; install it"
        in checkout.failure(**variables)
    )
    assert not checkout.installations()


@pytest.mark.parametrize(
    "says, line",
    [
        ("ERROR: [Errno 28] No space left on device", "because the disk is full; free some space"),
        ("error: error sending request for url (x)", "unreachable; check"),
        ("WARNING: Retrying (Retry(total=0)) after connection broken by x", "unreachable; check"),
        ("  x Failed to build `fairseq-fixed`", "a package could not be built; see"),
        ("error: something else", "what they need failed (error: something else); see"),
    ],
)
def test_an_installation_that_fails(checkout, says, line):
    variables = {**checkout.activate(), "UV_PLANS": LACKS, "UV_SAYS": says}
    assert line in checkout.failure(**variables)


@pytest.mark.parametrize(
    "plans, says",
    [
        (" + torch==2.13.0\n + nvidia-nccl-cu13==2", "torch with CUDA takes 5.3 GB on the disk"),
        (" + torch==2.13.0+cpu", "torch without CUDA takes 2.1 GB on the disk"),
    ],
)
def test_the_size_is_said_before(checkout, plans, says):
    checkout.command("nvidia-smi", "true")
    variables = {**checkout.activate(), "UV_PLANS": plans}
    _, _, err = checkout.set_up(**variables)
    first, second = err.splitlines()
    assert says in first
    assert second == "set-up: installing torch, fairseq and what they need ..."
    checkout.stamp.unlink()
    checkout.command("df", "echo header; echo disk 100 99 2500000 99% /")
    assert "the disk is full:" in checkout.failure(**variables)


def test_a_long_installation_shows_signs_of_life(checkout):
    script = checkout.folder / "recipes/common.sh"
    script.write_text(script.read_text().replace("read -rt 30", "read -rt 0.2"))
    variables = {**checkout.activate(), "UV_PLANS": LACKS, "UV_TAKES": "1"}
    code, _, err = checkout.set_up(**variables)
    first, *others = err.splitlines()
    assert (code, first) == (0, "set-up: installing torch, fairseq and what they need ...")
    assert len(others) >= 2
    assert all(re.fullmatch(r"set-up: still installing torch, .*, for \d s", o) for o in others)


# An active environment


def test_active_environment_that_has_all_is_left_alone(checkout):
    variables = checkout.activate()
    code, out, err = checkout.set_up("test", **variables)
    assert (code, out, err) == (0, str(checkout.environment / "bin" / "python"), "")
    assert not checkout.installations()
    assert not (checkout.folder / ".venv").exists()
    calls = checkout.calls()
    for extras in (["test"], []):  # a second run does nothing
        assert checkout.set_up(*extras, **variables)[0] == 0
    assert checkout.calls() == calls


def test_package_that_is_not_linked_is_installed_alone(checkout):
    variables = {**checkout.activate(), "PYTHONPATH": ""}
    assert checkout.set_up(**variables)[0] == 0
    (call,) = checkout.installations()
    assert call.endswith(f"--no-deps --no-build-isolation --editable {checkout.folder}")


def test_only_what_lacks_is_pinned(checkout):
    checkout.write("constraints.txt", "# comment\nmy-pytest==1.0\nnowhere==2.1\n")
    variables = {**checkout.activate(), "UV_HAS": f"{HAS} My_pytest==0.9", "UV_PLANS": LACKS}
    assert checkout.set_up("test", **variables)[0] == 0
    assert Path(f"{checkout.calls_file}.pins").read_text().split() == ["nowhere==2.1"]


@pytest.mark.parametrize("there", ["", " fairseq_fixed==0.12.3.1"])
def test_a_fairseq_under_another_name_is_enough(checkout, there):
    variables = {**checkout.activate(), "UV_HAS": HAS + there, "UV_PLANS": LACKS}
    checkout.tools.joinpath("rm").unlink()  # so that the list of requirements stays
    checkout.command("rm", "true")
    assert checkout.set_up("test", **variables)[0] == 0
    (wanted,) = checkout.folder.parent.glob("set-up.*.wanted")
    assert ("fairseq" in wanted.read_text()) == (not there)
    assert {"torch>=2.1", "numpy", "matplotlib", "pytest"} <= set(wanted.read_text().split())


def test_conda_environment_counts_but_not_its_base(checkout):
    conda = {"PYTHONPATH": checkout.activate()["PYTHONPATH"]}
    conda["CONDA_PREFIX"] = str(checkout.environment)
    assert "found no python3" in checkout.failure(CONDA_DEFAULT_ENV="base", **conda)
    assert checkout.set_up(CONDA_DEFAULT_ENV="work", **conda)[0] == 0


def test_active_environment_of_the_wrong_version(checkout):
    variables = checkout.activate()
    (checkout.environment / "bin" / "python").write_text("#!/usr/bin/env bash\necho 3.8\n")
    assert "found Python 3.8" in (line := checkout.failure(**variables))
    assert line.endswith("deactivate this environment or use one with such a Python")


# The stamp


def test_another_extra_or_a_change_is_looked_at_again(checkout):
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
    variables = {**checkout.activate(), "UV_PLANS": LACKS}
    process = checkout.start(UV_TAKES="60", **variables)
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
    variables = {**checkout.activate(), "UV_PLANS": LACKS}
    runs = [checkout.start(UV_TAKES="0.5", **variables) for _ in range(2)]
    errors = [run.communicate(timeout=PATIENCE)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert "waiting for the set-up of another run" in "".join(errors)
    assert len([c for c in checkout.installations() if " -r " in c]) == 1


# The real uv


@pytest.fixture
def wheels(checkout) -> dict[str, str]:
    """Lay out small wheels, in two versions each; pip's settings name their folder."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("uv is not installed here")
    (checkout.tools / "uv").symlink_to(uv)
    folder = checkout.folder.parent / "wheels"
    folder.mkdir()
    for name in ["setuptools", "wheel", "torch", "numpy", "pytest"]:
        for version in ["900.1", "900.2"]:
            make_wheel(folder, name, version)
    checkout.require("torch", "numpy")
    checkout.write("constraints.txt", "# all\ntorch==900.1\nnumpy==900.1\npytest==900.1\n")
    settings = checkout.folder.parent / "pip.conf"
    settings.write_text(f"[global]\nno-index = 1\nfind-links = {folder}\n")
    return {
        "PIP_CONFIG_FILE": str(settings),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(checkout.folder),
    }


def make_wheel(folder: Path, name: str, version: str) -> None:
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in {**files, f"{about}/RECORD": record}.items():
            wheel.writestr(file, text)


def versions(environment: Path) -> dict[str, str]:
    found = environment.glob("lib/python*/site-packages/*-900.*.dist-info")
    return dict(path.name.removesuffix(".dist-info").split("-") for path in found)


@pytest.mark.long(ci=True)
def test_an_environment_is_made_from_what_pip_is_told(checkout, wheels):
    code, out, err = checkout.set_up(**wheels)
    environment = checkout.folder / ".venv"
    assert (code, out) == (0, str(environment / "bin/python")), err
    assert err.splitlines()[1:] == [
        "set-up: torch without CUDA takes 2.1 GB on the disk; it is downloaded unless it is cached",
        "set-up: installing the build tools ...",
        "set-up: installing torch, fairseq and what they need ...",
    ]
    assert {"torch": "900.1", "numpy": "900.1"}.items() <= versions(environment).items()
    assert checkout.set_up(**wheels)[2] == ""
    checkout.write("constraints.txt", "torch==900.2\nnumpy==900.1\npytest==900.1\n")
    assert checkout.set_up("test", **wheels)[0] == 0
    assert versions(environment)["torch"] == "900.2"


@pytest.mark.long(ci=True)
def test_an_environment_that_was_not_finished_is_made_anew(checkout, wheels):
    assert checkout.set_up(**wheels)[0] == 0
    environment = checkout.folder / ".venv"
    (half,) = environment.glob("lib/python*/site-packages/numpy*.dist-info")
    (half / "RECORD").unlink()
    (environment / ".begun").touch()
    (environment / ".fairseq_posattn").unlink()
    code, _, err = checkout.set_up(**wheels)
    assert code == 0
    assert err.startswith(f"set-up: creating {environment}")
    assert (half / "RECORD").exists()
    assert not (environment / ".begun").exists()


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
    named = 'version = { attr = "fairseq_posattn.files.version.__version__" }'
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
