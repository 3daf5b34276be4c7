"""Which documents are neither completed nor used as context, and why: by name, settings and text.

What the disk says of them (ignore files, where links lead) is `file_rules`.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache

from lsp_server.completion import Reason, Refusal, Snapshot
from lsp_server.files.secret_text import has_private_key
from lsp_server.files.uris import VIEWS, names_of, scheme_of
from lsp_server.settings.tree import Settings

_DATA = ("", ".json", ".toml", ".y*ml", ".ini", ".cfg", ".conf", ".txt", ".csv", ".xml")
"""How the names of files end that hold data and no program."""

SECRET_NAMES = (
    *(".env*", "*.env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".git-credentials", "*.credentials"),
    *(name + end for name in ("credentials", "secret", "secrets", "vault") for end in _DATA),
    *("*credentials*.json", "client_secret*.json", "service-account*.json", "kubeconfig"),
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*backup"),
    *(".dev.vars*", ".vault-token", ".vault_pass*", ".my.cnf", ".mylogin.cnf"),
    *("password.txt", "passwords.txt", "passwords.csv"),
    *(".dockercfg", ".s3cfg", ".boto", ".terraformrc", "terraform.rc", ".*_history"),
)
"""Names, in lower case, of files that exist to hold keys and passwords."""

SECRET_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store")

_BINARY_PROBE = 8192
_MAX_BYTES_PER_CHARACTER = 4


def refuse_document(snapshot: Snapshot, settings: Settings) -> Refusal | None:
    """Why this document gets no completion at all, as far as no disk need be asked; None where it
    may. Some 0.5 ms a megabyte."""
    return refuse_name(snapshot.uri, settings) or _refuse_content(snapshot, settings)


def refuse_name(uri: str, settings: Settings) -> Refusal | None:
    """Judge a URI or path by its name alone: secrets, views, the globs of the settings."""
    paths = names_of(uri)
    for path in paths:
        if (refusal := _refuse_secret(path.lower())) is not None:
            return refusal
    if (scheme := scheme_of(uri)) in VIEWS:
        return Refusal(Reason.EXCLUDED, f"What editors show as `{scheme}:` is not written in.")
    for pattern in settings.exclude:
        if any(matches(path, pattern) for path in paths):
            return Refusal(Reason.EXCLUDED, f"The setting `exclude` has `{pattern}`.")
    return None


def _refuse_secret(path: str) -> Refusal | None:
    *folders, name = path.split("/")
    name = name.rstrip(". ")  # Windows opens the file without them
    for pattern, regex in _secret_names().items():
        if regex.match(name):
            message = f"Files named `{pattern}` hold keys or passwords; they are left alone."
            return Refusal(Reason.SECRET, message)
    for folder in folders:
        if folder in SECRET_FOLDERS:
            message = f"What lies in `{folder}` are keys or passwords; it is left alone."
            return Refusal(Reason.SECRET, message)
    return None


def _refuse_content(snapshot: Snapshot, settings: Settings) -> Refusal | None:
    text = snapshot.text
    if snapshot.language_id in settings.languages_off:
        message = f"The setting `languages_off` has `{snapshot.language_id}`."
        return Refusal(Reason.EXCLUDED, message)
    if is_binary(text):
        return Refusal(Reason.BINARY, "The file is not text: it has a NUL.")
    for is_over, kind, name in (
        (is_too_large(text, settings.max_file_bytes), "is longer in bytes", "max_file_bytes"),
        (has_more_lines(text, settings.max_lines), "has more lines", "max_lines"),
        (has_longer_line(text, settings.max_line_length), "has a longer line", "max_line_length"),
    ):
        if is_over:
            message = f"The file {kind} than `{name}` allows ({getattr(settings, name)})."
            return Refusal(Reason.TOO_LARGE, message)
    if has_private_key(text):
        return Refusal(Reason.SECRET, "The text holds a private key; it is left alone.")
    return None


def matches(path: str, pattern: str) -> bool:
    """Globs as users write them: `*.md` for any name, `docs/` for a folder, `a/**/b.py`."""
    return any(regex.match(path) for regex in _regexes(pattern))


@lru_cache(maxsize=4096)
def _regexes(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Compiled once: each request asks for all of them."""
    pattern = pattern.replace("\\", "/").removeprefix("./").removeprefix("**/")
    if pattern.endswith("/"):
        pattern += "*"
    wanted = dict.fromkeys((pattern, pattern.replace("/**/", "/")))
    globs = [glob for one in wanted for glob in (one, f"*/{one.lstrip('/')}")]
    return tuple(re.compile(translate(glob)) for glob in globs)


@lru_cache(maxsize=1)
def _secret_names() -> dict[str, re.Pattern[str]]:
    return {pattern: re.compile(translate(pattern)) for pattern in SECRET_NAMES}


def is_too_large(text: str, max_bytes: int) -> bool:
    """Compare the size in UTF-8, encoding only where the number of characters cannot tell."""
    if len(text) * _MAX_BYTES_PER_CHARACTER <= max_bytes:
        return False
    return len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes


def has_more_lines(text: str, max_lines: int) -> bool:
    if len(text) < max_lines:
        return False
    return text.count("\n") >= max_lines or text.count("\r") >= max_lines


def has_longer_line(text: str, max_length: int) -> bool:
    """Look at one line in each stretch of that length: the rest need not be read."""
    start = 0
    while start + max_length < len(text):
        stop = start + max_length + 1
        end = text.rfind("\n", start, stop)
        if end < 0:
            end = text.rfind("\r", start, stop)
        if end < 0:
            return True
        start = end + 1
    return False


def is_binary(text: str) -> bool:
    """A NUL near the beginning: no text file has one."""
    return "\0" in text[:_BINARY_PROBE]
