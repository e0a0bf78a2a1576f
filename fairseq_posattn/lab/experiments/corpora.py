"""Collect the corpus of a recipe: unpack, copy, join and count its texts.

The corpus.py of a recipe may define two functions for what is special about its corpus:

    def collect(collector: Collector) -> None       # makes all texts in collector.raw
    def references(raw: Path, test: str) -> dict    # options of posattn score for the references
"""

from __future__ import annotations

import errno
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import IO

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.files import count_lines, read_lines
from fairseq_posattn.lab.experiments.commands import Shell, python
from fairseq_posattn.lab.experiments.recipe import Recipe, module_beside
from fairseq_posattn.preparation.corpus import Treebanks
from fairseq_posattn.preparation.translated import write_translated
from fairseq_posattn.text.languages import language

PACKED = ("", ".gz", ".xz", ".zst")
SPECIAL = "corpus.py"


class Collector:
    """A collector makes the texts of a recipe from the files of a folder.

    folder: has the corpus as its makers give it out.
    raw: gets the texts, NAME.LANGUAGE, one sentence a line.
    any_size: admits texts of any number of sentences.
    """

    def __init__(self, recipe: Recipe, shell: Shell, folder: Path, raw: Path, any_size: bool):
        self.recipe, self.shell = recipe, shell
        self.folder, self.raw, self.any_size = folder, raw, any_size
        self.content = recipe.content
        self.languages = (self.content.source, self.content.target)

    def collect(self) -> None:
        """Make all texts, as corpus.py says, or else by copying them."""
        special = special_of(self.recipe)
        if special is not None and hasattr(special, "collect"):
            special.collect(self)
        else:
            for name in self.content.corpus.names:
                self.take_pair(name)
            for test, names in self.content.evaluation.subsets.items():
                for name in names:
                    self.join(f"{test}.{name}", [f"{test}.{name}"])

    def take_pair(self, name: str) -> None:
        """Make both sides of a text from the folder or, if they are not there, by sacrebleu.

        Trees that lie beside the text, for --parser conllu, are copied, too.
        """
        from_sacrebleu = self.content.corpus.sacrebleu.get(name)
        if from_sacrebleu and not self.has(f"{name}.{self.content.source}"):
            self.fetch_pair(name, from_sacrebleu)
            return
        if pattern := self.content.corpus.treebanks.get(name):
            self.take_treebanks(name, pattern)
            return
        for suffix in self.languages:
            self.join(f"{name}.{suffix}", [f"{name}.{suffix}"])
        if self.has(f"{name}.conllu"):
            self.join(f"{name}.conllu", [f"{name}.conllu"])

    def take_treebanks(self, name: str, pattern: str) -> None:
        """Make both sides of a text, and the trees of its source, from a treebank of each."""
        files = [pattern.replace("{}", suffix) for suffix in self.languages]
        if self.shell.does(f"write {self.raw / name} from {' and '.join(files)}"):
            paths = [str(self.find(file)) for file in files]
            by = Treebanks(paths[:1], paths[1:])
            write_translated(paths, by, str(self.raw / name), self.languages)
        for suffix in self.languages:
            self.expect(f"{name}.{suffix}")

    def fetch_pair(self, name: str, test_set: str) -> None:
        """Let sacrebleu download both sides of a test set."""
        pair = "-".join(language(name).code for name in self.languages)
        for suffix, side in zip(self.languages, ("src", "ref"), strict=True):
            out = self.raw / f"{name}.{suffix}"
            if not out.exists():
                self.shell.write(
                    python("sacrebleu", "-t", test_set, "-l", pair, "--echo", side),
                    out,
                    f"sacrebleu could not download {test_set}: without a network, put "
                    f"{name}.{' and '.join(self.languages)} into the folder of --from",
                )
            self.expect(f"{name}.{suffix}")

    def has(self, name: str) -> bool:
        """Return whether the folder has a file, plain or compressed."""
        return any((self.folder / f"{name}{end}").exists() for end in PACKED)

    def find(self, name: str) -> Path:
        """Return the path of a file of the folder, plain or compressed."""
        for end in PACKED:
            if (path := self.folder / f"{name}{end}").exists():
                return path
        raise InputError(
            f"{self.folder}/{name}: there is no such file, nor {name}.gz, .xz or .zst; name "
            "another folder"
        )

    def join(self, out: str, parts: Sequence[str | Path]) -> None:
        """Write the lines of all parts as UTF-8 with plain line ends.

        A part is a name in the folder, plain or compressed, or the path of a file.
        """
        path = self.raw / out
        if self.shell.does(f"write {path} from {', '.join(map(str, parts))}"):
            write_lines(
                path, [part if isinstance(part, Path) else self.find(part) for part in parts]
            )
        self.expect(out)

    def unpack(self, archive: str, names: Sequence[str] = (), into: str = "") -> None:
        """Unpack an archive of the folder, or only some of its files, below `raw`."""
        folder = self.raw / into
        if self.shell.does(f"unpack {self.folder / archive} into {folder}"):
            unpack(str(self.folder / archive), folder, names)

    def expect(self, name: str, sentences: Sequence[float] = ()) -> None:
        """Refuse a text that has not so many sentences, which the recipe says by default."""
        wanted = sentences or self.content.corpus.sentences.get(name.rpartition(".")[0], ())
        if wanted:
            self.expect_file(self.raw / name, *wanted)

    def expect_file(self, path: Path, lines: float, percent: float = 0) -> None:
        """Refuse a file that has not so many lines, give or take some percent."""
        if not self.any_size:
            self.shell.act(check_sentences, path, lines, percent)


def write_lines(out: Path, parts: Sequence[Path]) -> None:
    """Write the lines of all parts to a file, as UTF-8 with plain line ends."""
    with written_whole(out) as file:
        for part in parts:
            for line in read_lines(part):
                file.write(line.replace("\r", " ") + "\n")


def check_sentences(path: Path, expected: float, percent: float = 0) -> None:
    """Refuse a file that has not so many lines, give or take some percent."""
    found = count_lines(path)
    if abs(found - expected) > expected * percent / 100:
        about = f"about {expected:,} (± {percent:g} %)" if percent else f"{expected:,}"
        raise InputError(
            f"{path}: there are {found:,} sentences, expected {about}; get the right release, or "
            "go on with this one: --any-size"
        )


def references(recipe: Recipe, raw: Path, test: str) -> dict:
    """Return the options of posattn score that name the references of a test set."""
    special = special_of(recipe)
    if special is not None and hasattr(special, "references"):
        return special.references(raw, test)
    return {"references": [raw / f"{test}.{recipe.content.target}"]}


def special_of(recipe: Recipe) -> ModuleType | None:
    """Load what a recipe's corpus.py says of its corpus, or return None if there is none."""
    return module_beside(recipe.folder / SPECIAL, f"corpus_of_{recipe.name}")


CHUNK = 1 << 20
# Python raises NotImplementedError for an unknown compression, RuntimeError for a password.
TORN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)


def unpack(archive: str, folder: Path, names: Sequence[str]) -> None:
    """Write all files of an archive, or those of these names, below a folder; each appears when it
    is complete."""
    missing = set(names)
    with torn_archive_named(archive):
        for name, file in members(archive, names):
            missing.discard(name)
            out = folder / inside(archive, name)
            with replaced_whole(out) as partial, open(partial, "wb") as copy:
                shutil.copyfileobj(file, copy, CHUNK)
    if missing:
        raise InputError(
            f"{archive}: the archive has no {min(missing)}; it may be incomplete: get it again"
        )


@contextmanager
def torn_archive_named(archive: str) -> Iterator[None]:
    """Name the archive in an error of unpacking."""
    try:
        yield
    except InputError:
        raise
    except (*TORN, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk has failed; a seek before the file's beginning is the archive's fault
        if isinstance(error, NotImplementedError):
            raise InputError(
                f"{archive}: Python cannot unpack it ({str(error)[:80]}); pack it as plain ZIP or "
                "tar.gz"
            ) from error
        raise InputError(
            f"{archive}: the archive is incomplete or damaged ({str(error)[:80]}); get it again"
        ) from error


def members(archive: str, names: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield names and contents of the plain files in their order, without links and folders."""
    if zipfile.is_zipfile(archive) or archive.endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir() and (not names or info.filename in names):
                    yield info.filename, opened.open(info)
    else:
        with tarfile.open(archive) as packed:
            for member in packed:
                file = packed.extractfile(member) if member.isfile() else None
                if file is not None and (not names or member.name in names):
                    yield member.name, file
            check_end(packed)


def check_end(archive: tarfile.TarFile) -> None:
    """Refuse an archive that was cut off between two files, which tarfile takes for a complete
    one."""
    if archive.fileobj.tell() == archive.offset:
        raise tarfile.ReadError("its end is missing")
    while archive.fileobj.read(CHUNK):  # the checksum stands at the very end
        pass


def inside(archive: str, name: str) -> PurePosixPath:
    """Return the path of a file below the folder that it is written to."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise InputError(
            f"{archive}: {name[:60]!a} would be written outside its folder; get another archive"
        )
    return path
