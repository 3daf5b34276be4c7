"""Who may import whom: the direction in which data flows, held by walking the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.relative_to(ROOT)
    for package in ("lsp_server", "models", "export")
    for path in (ROOT / package).rglob("*.py")
)
ONLY = {
    "pygls": {"lsp_server/server.py", "lsp_server/protocol.py", "lsp_server/copilot.py"},
    "lsprotocol": {"lsp_server/server.py", "lsp_server/protocol.py", "lsp_server/copilot.py"},
    "onnxruntime": {"lsp_server/engine/providers.py", "export/check.py"},
    "onnx": {"export"},
    "onnx_ir": {"export"},
    "safetensors": {"export"},
    "gguf": {"export"},
    "tree_sitter": {"lsp_server/syntax"},
    "torch": set(),
    "transformers": set(),
}
"""Library -> the files, or the folders, that may import it."""

ENGINE_MAY_USE = {"lsp_server.engine", "lsp_server.errors", "lsp_server.cancellation"}
PRODUCT_MAY_USE = {
    "models.catalogue": None,
    "models.store": None,
    "models.__main__": {"lsp_server/commands/models.py"},
    "export.__main__": {"lsp_server/commands/export.py"},
    "export.parameters": {"lsp_server/bench/methods.py"},
}
"""What the product may import of the other packages -> where; None: anywhere."""

ORDER = (
    "lsp_server.commands.serve",
    "lsp_server.server",
    "lsp_server.copilot",
    "lsp_server.session",
    "lsp_server.answering.answering",
    "lsp_server.answering.lookahead",
    "lsp_server.answering.inflight",
    "lsp_server.answering.known",
    "lsp_server.answering.spot",
    "lsp_server.answering.remainder",
    "lsp_server.scheduler",
    "lsp_server.completer",
    "lsp_server.generation.confidence",
    "lsp_server.generation.items",
    "lsp_server.generation.collecting",
    "lsp_server.generation.stops",
    "lsp_server.generation.amount",
    "lsp_server.text.prose",
    "lsp_server.postprocess",
    "lsp_server.text.place",
)
"""From the edge inwards: none of these imports one before it. `serve` is the edge: it puts the
server together with settings, loader and statistics, so that none of them knows another."""


def imports(path: Path) -> set[str]:
    """Every module that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            assert node.module is not None
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(str(node.args[0].value))
    return found


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_libraries_are_imported_only_where_they_belong(path):
    name = path.as_posix()
    for library, places in ONLY.items():
        if any(within(module, library) for module in imports(path)):
            assert any(name == place or name.startswith(place + "/") for place in places), library


@pytest.mark.parametrize("path", [p for p in MODULES if "engine" in p.parts], ids=str)
def test_the_engine_knows_no_text_uri_or_protocol(path):
    for module in imports(path):
        if module.split(".")[0] in ("lsp_server", "models", "export"):
            assert any(within(module, allowed) for allowed in ENGINE_MAY_USE), module


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "lsp_server"], ids=str)
def test_the_product_uses_the_other_packages_through_their_doors(path):
    for module in imports(path):
        if module in ("models", "export") or module.split(".")[0] not in ("models", "export"):
            continue
        door = next((d for d in PRODUCT_MAY_USE if within(module, d)), None)
        assert door is not None, module
        places = PRODUCT_MAY_USE[door]
        assert places is None or path.as_posix() in places, module


def test_the_steps_of_a_completion_import_only_inwards():
    for inner_rank, inner in enumerate(ORDER):
        base = ROOT / Path(*inner.split("."))
        files = sorted(base.glob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
        for file in files:
            for module in imports(file.relative_to(ROOT)):
                for outer in ORDER[:inner_rank]:
                    assert not within(module, outer), f"{inner} imports {outer}"


@pytest.mark.parametrize(
    "name",
    [
        *("answering/known", "answering/spot", "answering/remainder", "answering/pacing"),
        "statistics/inference",
    ],
)
def test_what_is_known_and_inferred_needs_no_clock_thread_or_file(name):
    used = {module.split(".")[0] for module in imports(Path(f"lsp_server/{name}.py"))}
    assert used <= {"__future__", "collections", "dataclasses", "lsp_server", "re", "sys"}


def test_copilots_dialect_is_told_of_sessions_and_messages_only():
    own = {m for m in imports(Path("lsp_server/copilot.py")) if m.startswith("lsp_server.")}
    known = ("answers", "documents", "params", "session", "statistics", "status")
    assert all(module.split(".")[1] in known for module in own)


def test_the_walk_sees_an_import_inside_a_function():
    assert "numpy" in imports(Path("lsp_server/engine/verify.py"))
    assert "models.catalogue" in imports(Path("lsp_server/backend/loader.py"))
    assert "onnxruntime" in imports(Path("lsp_server/engine/providers.py"))
