"""What is left of a build whose verification failed: a folder beside that of the build, for a person to look into."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from headrace.build.config import CONFIG_FILE
from headrace.build.journal import Journal
from headrace.build.output import write_files
from headrace.build.page import page_environment
from headrace.errors import VerificationError, printable

SUFFIX = ".failed"
FAILURE = "failed.json"
"""The error and the steps; by it a folder is known to be one that may be replaced."""

_PAGES = Path(__file__).with_name("pages")
_PAGE = "report/index.html"


def folder_of_failure(folder: Path) -> Path:
    """Where what is left of a failed build of *folder* is kept."""
    named = folder if folder.name else folder.resolve()
    return named.with_name(named.name + SUFFIX)


def keep_failure(scratch: Path, folder: Path, name: str, error: VerificationError, journal: Journal) -> Path | None:
    """Move *scratch*, what a build of *folder* had written when *error* ended it, beside *folder*, with a page.

    Returns:
        the page; None where the folder cannot be written, or there is another of that name that no build put there.
    """
    target = folder_of_failure(folder)
    if os.path.lexists(target) and not (target / FAILURE).is_file():
        return None
    with suppress(OSError):
        for of_a_whole_build in (CONFIG_FILE, "report/report.json"):
            (scratch / of_a_whole_build).unlink(missing_ok=True)
        there = sorted(path.name + "/" * path.is_dir() for path in scratch.iterdir())
        data = {"name": name, "error": str(error), "steps": [asdict(record) for record in journal.records]}
        template = page_environment(_PAGES, str).get_template("failed.html.j2")
        page = template.render(**data, warnings=journal.warnings, folder=str(folder), there=there)
        files = {
            _PAGE: printable(page, keep="\n"),
            FAILURE: json.dumps(data, indent=2) + "\n",
            "build.log": journal.text(),
        }
        write_files(scratch, files)
        if target.is_dir():
            shutil.rmtree(target)
        os.rename(scratch, target)
        return target / _PAGE
    return None


def forget_failure(folder: Path) -> None:
    """Remove what is left of an earlier build of *folder* that failed."""
    target = folder_of_failure(folder)
    if (target / FAILURE).is_file() and not target.is_symlink():
        shutil.rmtree(target, ignore_errors=True)
