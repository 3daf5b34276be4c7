"""What the VS Code extension has from the server is as the server has it. TABAHEAD_UPDATE=1 writes
the settings of its package.json anew."""

from __future__ import annotations

import json
import os
import re
import tomllib
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any, get_origin

from lsp_server.settings.tree import ADDING, WORKSPACE_KEYS, Key, Settings, describe, keys_of

EXTENSION = Path(__file__).parents[2] / "editor-clients" / "vscode"
PACKAGE = EXTENSION / "package.json"
SECTION = "tabahead."
OF_THE_CLIENT = ("tabahead.server.", "tabahead.trace.")
"""Settings that the server never hears of; written by hand."""

SENT_BY_THE_CLIENT = frozenset({"status"})
"""Not for people: the extension says it at once."""

OF_THE_MACHINE = ("model", "draft_model", "heads", "engine.", "log_level")
"""They name files and resources of the machine: no workspace may set them, trusted or not."""

NARROWING = ADDING | {"mode"}
"""What a workspace that is not trusted may set: lists only grow (the extension adds them up). Its
limits are left out, since the editor would let them rise as well."""

LARGEST = 2**53 - 1
"""The largest whole number that JavaScript keeps."""


def kind_of(key: Key) -> dict[str, Any]:
    choices = key.metadata.get("choices")
    if get_origin(key.type) is tuple:
        items = {"type": "string", **({"enum": list(choices)} if choices else {})}
        return {"type": "array", "items": items, "uniqueItems": True}
    if isinstance(key.type, type) and issubclass(key.type, Enum):
        return {"type": "string", "enum": [member.value for member in key.type]}
    if key.type in (int, float):
        limits = {"minimum": key.metadata["low"], "maximum": min(key.metadata["high"], LARGEST)}
        return {"type": "integer" if key.type is int else "number", **limits}
    if key.type is bool:
        return {"type": "boolean"}
    return {"type": "string", **({"enum": list(choices)} if choices else {})}


def default_of(key: Key) -> Any:
    if isinstance(key.default, Enum):
        return key.default.value
    return list(key.default) if isinstance(key.default, tuple) else key.default


def is_of_the_machine(name: str) -> bool:
    return any(name == own or (own[-1] == "." and name.startswith(own)) for own in OF_THE_MACHINE)


def properties_of(keys: list[Key], first_order: int) -> dict[str, Any]:
    docs = {row.key: row.doc for row in describe()}
    return {
        SECTION + key.name: {
            **kind_of(key),
            "default": default_of(key),
            "scope": "machine" if is_of_the_machine(key.name) else "window",
            "order": order,
            "markdownDescription": docs[key.name],
        }
        for order, key in enumerate(keys, first_order)
    }


def generated(package: dict[str, Any]) -> dict[str, Any]:
    """The same package with the settings of the server's tree."""
    package = json.loads(json.dumps(package))
    keys = [key for key in keys_of(Settings) if key.name not in SENT_BY_THE_CLIENT]
    configuration = package["contributes"]["configuration"]
    own = {
        name: value
        for name, value in configuration["properties"].items()
        if name.startswith(OF_THE_CLIENT)
    }
    configuration["properties"] = {**own, **properties_of(keys, len(own))}
    package["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = [
        *own,
        *(SECTION + key.name for key in keys if key.name not in NARROWING),
    ]
    return package


def test_the_extensions_settings_are_those_of_the_server():
    text = PACKAGE.read_text(encoding="utf-8")
    wanted = json.dumps(generated(json.loads(text)), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("TABAHEAD_UPDATE") == "1":
        PACKAGE.write_text(wanted, encoding="utf-8")
    else:
        assert text == wanted


def test_what_a_workspace_may_not_set_is_kept_from_one_that_is_not_trusted():
    package = json.loads(PACKAGE.read_text(encoding="utf-8"))
    restricted = package["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    offered = package["contributes"]["configuration"]["properties"]
    free = {name.removeprefix(SECTION) for name in offered if name not in restricted}
    assert free
    assert free <= WORKSPACE_KEYS


def test_no_workspace_sets_what_is_started_or_loaded():
    package = json.loads(PACKAGE.read_text(encoding="utf-8"))
    offered = package["contributes"]["configuration"]["properties"]
    for name in ("server.command", "server.python", "server.package", "model", "engine.threads"):
        assert offered[SECTION + name]["scope"] == "machine"


def test_the_extension_adds_up_the_lists_that_the_server_adds_up():
    source = (EXTENSION / "src" / "core" / "settings.ts").read_text(encoding="utf-8")
    (listed,) = re.findall(r"ADDING = new Set\(\[(.*)\]\)", source)
    assert set(re.findall(r"'(\w+)'", listed)) == ADDING


def test_the_extension_has_the_version_of_the_server_that_it_brings():
    project = tomllib.loads((EXTENSION.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    package = json.loads(PACKAGE.read_text(encoding="utf-8"))
    assert package["version"] == project["project"]["version"]


def test_the_statistics_page_asks_for_the_theme_as_the_extension_knows_it():
    asked = "(prefers-color-scheme: dark)"
    style = resources.files("lsp_server.report").joinpath("style.css").read_text(encoding="utf-8")
    assert f"@media {asked}" in style
    assert asked in (EXTENSION / "src" / "core" / "page.ts").read_text(encoding="utf-8")
