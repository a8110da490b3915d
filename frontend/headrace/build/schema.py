"""The JSON schema of configuration files, and what every setting means."""

from __future__ import annotations

import inspect
import json
import re
import textwrap

from headrace.build.config import BuildConfig
from headrace.build.finn_settings import foreign_texts


def field_texts() -> dict[str, str]:
    """What every setting means, or why it has no meaning here, by name."""
    section = inspect.cleandoc(BuildConfig.__doc__ or "").split("Attributes:\n")[1]
    entries = re.split(r"\n(?=    \w)", textwrap.dedent(section).replace("\n    ", " "))
    texts = {}
    for entry in re.findall(r"^(\w[\w, ]*): (.*)$", "\n".join(entries), re.MULTILINE):
        texts.update(dict.fromkeys(entry[0].split(", "), entry[1]))
    return {**texts, **foreign_texts()}


def config_schema() -> str:
    """The JSON schema of configuration files, as the package has it in ``config.schema.json``."""
    schema = BuildConfig.model_json_schema()
    for name, text in field_texts().items():
        schema["properties"][name]["description"] = text
    schema["description"] = "Settings of a build of Headrace."
    return json.dumps(schema, indent=2) + "\n"
