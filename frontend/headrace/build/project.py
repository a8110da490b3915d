"""``headrace init``: a project with a network, a build script, an RTL regression and its continuous integration."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace import __version__
from headrace.build.output import write_files
from headrace.errors import InputError

TEMPLATES = Path(__file__).with_name("pages") / "init"
OWN_MODEL = "model.onnx"


def write_project(folder: Path, model: Path | None = None) -> list[str]:
    """Write the files of a new project to *folder*; returns their paths in it.

    Args:
        folder: a new or empty folder; its name becomes the project's.
        model: an ONNX file that is copied into the project; without one, a small network to train is written.

    Raises:
        InputError: when the folder holds files, its name cannot stand in a file, or the model cannot be read.
    """
    name = folder.resolve().name
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]*", name) is None:
        raise InputError(f"{folder}: a project is named with letters, digits, '-', '_', '.' and spaces, not '{name}'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; expected a new or an empty folder")
    if model is not None and not model.is_file():
        raise InputError(f"{model}: no such file; expected an ONNX model")
    files = _rendered(name, trained=model is None)
    try:
        with _emptied(folder):
            write_files(folder, files)
            if model is not None:
                shutil.copyfile(model, folder / OWN_MODEL)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    return [*files, *([OWN_MODEL] if model is not None else [])]


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Whatever ends the block before its end leaves an empty folder as empty as it was, and a new one away.

    An empty folder may be somebody's current one, and is not replaced by another.
    """
    there = folder.is_dir()
    try:
        yield
    except BaseException:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _rendered(name: str, trained: bool) -> dict[str, str]:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # the name was checked
        variable_start_string="[[",  # the files of GitHub have braces of their own
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
    )
    context = {"name": name, "model": OWN_MODEL, "trained": trained, "version": __version__}
    files = {}
    for template in sorted(environment.list_templates(["j2"])):
        path = template.removesuffix(".j2")
        if trained or path != "network.py":
            files[path] = environment.get_template(template).render(context)
    return files
