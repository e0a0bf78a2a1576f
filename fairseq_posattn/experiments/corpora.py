"""Collect the corpus of a recipe: unpack, copy and concatenate files, and count sentences.

If a corpus requires code, the recipe's corpus.py defines one or both of these functions:

    def collect(collector: Collector) -> None       # writes all text files to collector.raw
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
from fairseq_posattn.experiments.commands import Shell, python
from fairseq_posattn.experiments.recipe import Recipe, arguments, module_beside
from fairseq_posattn.experiments.runs import files_in
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.files import count_lines, read_lines
from fairseq_posattn.preparation.corpus import Treebanks
from fairseq_posattn.preparation.treebanks import write_translated
from fairseq_posattn.text.languages import language

PACKED = ("", ".gz", ".xz", ".zst")
SPECIAL = "corpus.py"


class Collector:
    """Creates the raw text files of a recipe from the files of its corpus.

    Example, in the corpus.py of a recipe:

        def collect(collector):
            collector.unpack("corpus.zip", into="unpacked")
            parts = [collector.raw / f"unpacked/part{k}.en" for k in (1, 2)]
            collector.join("train.en", parts)

    folder: corpus files as distributed by their authors.
    raw: output folder for the text files NAME.LANGUAGE, which contain one sentence per line.
    any_size: accept any number of sentences.
    skipped: kinds of trees for which corpus.py found no files; their data are not built.
    """

    def __init__(self, recipe: Recipe, shell: Shell, folder: Path, raw: Path, any_size: bool):
        self.recipe, self.shell = recipe, shell
        self.folder, self.raw, self.any_size = folder, raw, any_size
        self.content = recipe.content
        self.languages = (self.content.source, self.content.target)
        self.skipped: set[str] = set()

    def collect(self) -> None:
        """Write all text files, using the function `collect` of corpus.py if it is defined.

        Otherwise, write each text with `take_pair`, and copy the label files of the test sets.
        """
        if collect := getattr(special_of(self.recipe), "collect", None):
            collect(self)
            return
        for name in self.content.corpus.names:
            self.take_pair(name)
        for test, names in self.content.evaluation.subsets.items():
            for name in names:
                self.join(f"{test}.{name}", [f"{test}.{name}"])

    def take_pair(self, name: str) -> None:
        """Write the source and target files of a text.

        The files are copied from the corpus folder or extracted from treebanks. If recipe.toml
        specifies a sacrebleu test set and the folder does not contain the text, the files are
        downloaded with sacrebleu. Trees in the folder (NAME.conllu, for --parser conllu) are copied
        as well.
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
        """Extract a text in both languages, and its source trees, from two treebanks.

        pattern: file name of the treebanks, in which {} is replaced by the language.
        """
        files = [pattern.replace("{}", suffix) for suffix in self.languages]
        if self.shell.does(f"write {self.raw / name} from {' and '.join(files)}"):
            paths = [str(self.find(file)) for file in files]
            by = Treebanks(paths[:1], paths[1:])
            write_translated(paths, by, str(self.raw / name), self.languages)
        for suffix in self.languages:
            self.expect(f"{name}.{suffix}")

    def fetch_pair(self, name: str, test_set: str) -> None:
        pair = "-".join(language(name).code for name in self.languages)
        for suffix, side in zip(self.languages, ("src", "ref"), strict=True):
            out = self.raw / f"{name}.{suffix}"
            if not out.exists():
                self.shell.write(
                    python("sacrebleu", "-t", test_set, "-l", pair, "--echo", side),
                    out,
                    f"sacrebleu could not download {test_set}; without network access, put "
                    f"{name}.{' and '.join(self.languages)} into the folder given by --from",
                )
            self.expect(f"{name}.{suffix}")

    def has(self, name: str) -> bool:
        return any((self.folder / f"{name}{end}").exists() for end in PACKED)

    def find(self, name: str) -> Path:
        """Return the path of a (possibly compressed) file in the corpus folder."""
        for end in PACKED:
            if (path := self.folder / f"{name}{end}").exists():
                return path
        raise InputError(
            f"{self.folder}/{name}: the file does not exist, nor does {name}.gz, .xz or .zst; give "
            "another folder with --from"
        )

    def join(self, out: str, parts: Sequence[str | Path]) -> None:
        r"""Concatenate the lines of all parts into one text file, in UTF-8 with \n line endings.

        parts: paths, or names of files in the corpus folder; all files may be compressed.
        """
        path = self.raw / out
        if self.shell.does(f"write {path} from {', '.join(map(str, parts))}"):
            write_lines(
                path, [part if isinstance(part, Path) else self.find(part) for part in parts]
            )
        self.expect(out)

    def unpack(self, archive: str, names: Sequence[str] = (), into: str = "") -> None:
        """Extract an archive in the corpus folder to the folder `raw`/`into`.

        names: files to extract (default: all files).
        """
        folder = self.raw / into
        if self.shell.does(f"unpack {self.folder / archive} into {folder}"):
            unpack(str(self.folder / archive), folder, names)

    def expect(self, name: str, sentences: Sequence[float] = ()) -> None:
        """Raise an InputError if a text has an unexpected number of sentences.

        sentences: expected number and, optionally, the allowed deviation in percent (default:
            corpus.sentences in recipe.toml).
        """
        wanted = sentences or self.content.corpus.sentences.get(name.rpartition(".")[0], ())
        if wanted:
            self.expect_file(self.raw / name, *wanted)

    def expect_file(self, path: Path, lines: float, percent: float = 0) -> None:
        """Raise an InputError if the number of lines deviates from `lines` by more than `percent`.

        With `any_size`, nothing is checked.
        """
        if not self.any_size:
            self.shell.act(check_sentences, path, lines, percent)


def write_lines(out: Path, parts: Sequence[Path]) -> None:
    r"""Write the lines of all parts to one file, in UTF-8 with \n line endings."""
    with written_whole(out) as file:
        for part in parts:
            for line in read_lines(part):
                file.write(line.replace("\r", " ") + "\n")


def check_sentences(path: Path, expected: float, percent: float = 0) -> None:
    """Raise an InputError if a file does not have the expected number of lines.

    percent: allowed deviation.
    """
    found = count_lines(path)
    if abs(found - expected) > expected * percent / 100:
        about = f"about {expected:,} (± {percent:g} %)" if percent else f"{expected:,}"
        raise InputError(
            f"{path}: found {found:,} sentences, expected {about}; get the right release, or "
            "accept this one with --any-size"
        )


def references(recipe: Recipe, raw: Path, test: str) -> dict:
    """Return the options of posattn score that specify the references of a test set."""
    if special := getattr(special_of(recipe), "references", None):
        return special(raw, test)
    return {"references": [raw / f"{test}.{recipe.content.target}"]}


def reference_files(recipe: Recipe, raw: Path, test: str) -> list[Path]:
    """Return the existing reference files of a test set."""
    return [Path(path) for path in files_in(arguments(references(recipe, raw, test)))]


def special_of(recipe: Recipe) -> ModuleType | None:
    """Import a recipe's corpus.py and return the module, or None if the file does not exist."""
    return module_beside(recipe.folder / SPECIAL, f"corpus_of_{recipe.name}")


CHUNK = 1 << 20
# zipfile raises NotImplementedError (unknown compression method), RuntimeError (encrypted file).
TORN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)


def unpack(archive: str, folder: Path, names: Sequence[str]) -> None:
    """Extract an archive to a folder; each file is written atomically.

    Raises InputError if the archive is damaged or a requested file is missing.

    names: files to extract (default: all files).
    """
    missing = set(names)
    with torn_archive_named(archive):
        for name, file in members(archive, names):
            missing.discard(name)
            out = folder / inside(archive, name)
            with replaced_whole(out) as partial, open(partial, "wb") as copy:
                shutil.copyfileobj(file, copy, CHUNK)
    if missing:
        raise InputError(
            f"{archive}: the archive does not contain {min(missing)}; if it is incomplete, "
            "download it again"
        )


@contextmanager
def torn_archive_named(archive: str) -> Iterator[None]:
    """Convert exceptions raised during unpacking to InputErrors that name the archive."""
    try:
        yield
    except InputError:
        raise
    except (*TORN, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # a disk error; EINVAL means a seek to a negative offset in a damaged archive
        if isinstance(error, NotImplementedError):
            raise InputError(
                f"{archive}: Python does not support this compression ({str(error)[:80]}); convert "
                "it to plain ZIP or tar.gz"
            ) from error
        raise InputError(
            f"{archive}: the archive is incomplete or damaged ({str(error)[:80]}); download it "
            "again"
        ) from error


def members(archive: str, names: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name and content of each regular file in an archive; skip links and folders.

    names: yield only these files (default: all files).
    """
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
    """Raise a ReadError if an archive is truncated between two files, which tarfile overlooks."""
    if archive.fileobj.tell() == archive.offset:
        raise tarfile.ReadError("its end is missing")
    while archive.fileobj.read(CHUNK):  # read to the end, so that checksums are verified
        pass


def inside(archive: str, name: str) -> PurePosixPath:
    """Return the path of an extracted file, relative to the target folder.

    Raises InputError if the file would be written outside the target folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise InputError(
            f"{archive}: {name[:60]!a} would be extracted outside the target folder; get another "
            "archive"
        )
    return path
