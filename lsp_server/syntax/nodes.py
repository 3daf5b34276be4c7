"""What the grammars call their nodes: definitions, imports, blocks, comments, strings.

One table for all languages, since the grammars agree on most names and the others do not collide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTIONS = frozenset(
    (
        *("function_definition", "function_declaration", "generator_function_declaration"),
        *("method_definition", "method_declaration", "abstract_method_signature"),
        *("method_signature", "function_signature", "constructor_declaration", "method_elem"),
        *("function_item", "function_signature_item", "macro_definition", "preproc_function_def"),
        *("method", "singleton_method"),
    )
)
TYPES = frozenset(
    (
        *("class_definition", "class_declaration", "abstract_class_declaration", "class", "module"),
        *("interface_declaration", "enum_declaration", "record_declaration", "struct_declaration"),
        *("type_alias_declaration", "type_declaration", "type_definition", "type_item"),
        *("struct_item", "enum_item", "union_item", "trait_item", "impl_item"),
        *("struct_specifier", "class_specifier", "enum_specifier", "union_specifier"),
        *("trait_declaration", "concept_definition", "delegate_declaration"),
    )
)
WRAPPERS = frozenset(("decorated_definition", "export_statement", "template_declaration"))
"""Nodes that begin where, for a reader, the definition in them begins."""

CONTAINERS = WRAPPERS | frozenset(
    (
        *("block", "statement_block", "class_body", "declaration_list", "field_declaration_list"),
        *("body_statement", "interface_body", "enum_body", "enum_body_declarations"),
        *("namespace_definition", "namespace_declaration", "internal_module", "mod_item"),
        *("file_scoped_namespace_declaration", "ambient_declaration", "linkage_specification"),
        *("preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "ERROR"),
        *("if_statement", "else_clause", "try_statement", "except_clause", "expression_statement"),
    )
)
"""Nodes outside functions that may hold definitions and imports."""

IMPORTS = frozenset(
    (
        *("import_statement", "import_from_statement", "future_import_statement"),
        *("import_declaration", "use_declaration", "extern_crate_declaration", "preproc_include"),
        *("using_directive", "namespace_use_declaration"),
    )
)
BLOCKS = frozenset(
    (
        *("block", "statement_block", "compound_statement", "class_body", "declaration_list"),
        *("field_declaration_list", "interface_body", "enum_body", "enumerator_list"),
        *("enum_variant_list", "match_block", "constructor_body", "switch_block", "switch_body"),
        *("body_statement", "block_body", "do_block", "do_group", "then", "do", "accessor_list"),
        *("enum_member_declaration_list", "statement_list", "initializer_list", "object"),
        *("dictionary", "set", "literal_value", "array", "list", "object_type", "interface_type"),
        *("array_expression", "array_initializer", "field_initializer_list"),
    )
)
"""Lists of statements, members or entries: what a header or an opening bracket begins."""

BRANCHES = frozenset(
    (
        *("switch_case", "switch_default", "case_statement", "expression_case", "type_case"),
        *("default_case", "communication_case", "switch_block_statement_group", "switch_section"),
        *("default_statement", "labeled_statement", "if_statement", "elif_clause", "else_clause"),
        *("else", "elsif", "when", "rescue", "ensure", "case_item", "begin"),
    )
)
"""Nodes that in some language have statements behind a mark or a keyword, without a block."""

COMMENT = re.compile(r".*comment")
STRING = re.compile(r"(?!concatenated|system_lib).*string.*|.*char.*literal|rune_literal|heredoc.*")
SUBSTITUTIONS = frozenset(
    (
        *("interpolation", "template_substitution", "command_substitution"),
        *("expansion", "simple_expansion"),
    )
)
"""Code inside a string."""

_IMPORT_CALL = re.compile(
    r"(?:(?:const|let|var)\b[^=\n]*=\s*)?"
    r"(?:require(?:_relative|_once)?|include(?:_once)?|source|\.)[ (]+['\"\w./]"
)
"""What those languages write that have no node for it."""

_FUNCTION_VALUES = frozenset(
    ("arrow_function", "function_expression", "generator_function", "class")
)
_DECLARATIONS = frozenset(("declaration", "field_declaration"))


def is_type(node: Node) -> bool:
    """The definition of something that may have members."""
    if node.type not in TYPES:
        return False
    return not node.type.endswith("_specifier") or node.child_by_field_name("body") is not None


def is_definition(node: Node) -> bool:
    """Of a function or a type, a prototype or a constant whose value is a function included."""
    if node.type in FUNCTIONS or is_type(node):
        return True
    if node.type == "lexical_declaration":
        return _value(node) is not None
    if node.type in _DECLARATIONS:
        return any(child.type == "function_declarator" for child in _declarators(node))
    return False


def is_docstring(node: Node) -> bool:
    """A statement that is nothing but a string."""
    children = node.named_children
    return node.type == "expression_statement" and [child.type for child in children] == ["string"]


def is_import(node: Node, text: str) -> bool:
    """`text` is what the tree was made of."""
    if node.type in IMPORTS:
        return True
    if node.type == "mod_item":
        return node.child_by_field_name("body") is None
    return bool(_IMPORT_CALL.match(text, node.start_byte))


def body_of(node: Node) -> Node | None:
    """What follows the signature of a definition."""
    inner = _value(node) or node
    return inner.child_by_field_name("body")


def name_of(node: Node) -> Node:
    """The node that has a definition's name; itself where it has none."""
    field = "type" if node.type == "impl_item" else "name"
    if (found := node.child_by_field_name(field)) is not None:
        return found
    chain = _declarators(node)
    if chain:
        return chain[-1]
    for child in node.named_children:
        if (found := child.child_by_field_name("name")) is not None:
            return found
    return node


def _declarators(node: Node) -> list[Node]:
    """From the outermost to the one that is the name, as C nests them."""
    found: list[Node] = []
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        found.append(inner)
        inner = inner.child_by_field_name("declarator")
    return found


def _value(node: Node) -> Node | None:
    """The function that a constant is declared to be."""
    if node.type != "lexical_declaration" or not node.named_children:
        return None
    value = node.named_children[0].child_by_field_name("value")
    return value if value is not None and value.type in _FUNCTION_VALUES else None
