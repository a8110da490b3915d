"""Settings as text: JSON, or YAML as FINN+ takes it, to a dictionary; a name stands once in either."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from headrace.bounded_text import given_text
from headrace.errors import InputError
from headrace.schedule.folding_file import DoubledKeyError, without_doubles

YAML_SUFFIXES = (".yaml", ".yml")


class YamlLoader(yaml.SafeLoader):
    """YAML whose numbers are those of version 1.2 and of JSON, so that ``1e6`` is one, and whose names stand once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a name that stands twice, of which the parser would silently keep the last."""
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<")
        if doubled := next((name for name, times in names.items() if times > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"the name '{doubled}' stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_text(path: Path) -> str:
    """The text of a file of settings.

    Raises:
        InputError: when it cannot be read.
    """
    try:
        return given_text(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        form = "YAML" if path.suffix in YAML_SUFFIXES else "JSON"
        raise InputError(f"{path}: is not a {form} file ({error.reason})") from error


def from_text(text: str, where: str, form: str = "JSON") -> dict[str, Any]:
    """The settings in *text*, whose *form* is ``"JSON"`` or ``"YAML"``; *where* is what messages call it.

    Raises:
        InputError: when it is not of that form, or holds something else than settings by name.
    """
    try:
        if form == "YAML":
            settings = yaml.load(text, YamlLoader)
        else:
            settings = json.loads(text, object_pairs_hook=without_doubles)
    except DoubledKeyError as error:
        raise InputError(f"{where}: has the key {json.dumps(error.key)} twice in one object") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{where}: is not {form} ({' '.join(str(error).split())})") from error
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise InputError(f"{where}: must hold an object of settings by name")
    return settings
