"""Which documents are neither completed nor used as context, and why."""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from lsp_server.completion import Reason, Refusal, Snapshot
from lsp_server.settings import Settings

SECRET_NAMES = (
    *(".env*", "*.env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".git-credentials", "*.credentials"),
    *("credentials*", "*credentials*.json", "secrets.json", "secrets.toml", "secrets.y*ml"),
    *(".dockercfg", "*.tfvars", "*.tfstate", "kubeconfig", "vault.y*ml"),
)
"""Names, in lower case, of files that exist to hold keys and passwords."""

SECRET_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Two characters at least: one alone is a drive of Windows."""

_BINARY_PROBE = 8192
_MAX_BYTES_PER_CHARACTER = 4


def refuse_document(snapshot: Snapshot, settings: Settings) -> Refusal | None:
    """Why this document gets no completion at all; None where it may."""
    refusal = refuse_name(snapshot.uri, settings)
    if refusal is not None:
        return refusal
    if snapshot.language_id in settings.languages_off:
        language = snapshot.language_id
        return Refusal(Reason.EXCLUDED, f"The setting `languages_off` has `{language}`.")
    if is_too_large(snapshot.text, settings.max_file_bytes):
        message = f"The file is larger than {settings.max_file_bytes} bytes (`max_file_bytes`)."
        return Refusal(Reason.TOO_LARGE, message)
    if is_binary(snapshot.text):
        return Refusal(Reason.BINARY, "The file is not text: it has a NUL.")
    return None


def refuse_name(uri: str, settings: Settings) -> Refusal | None:
    """Judge a URI or path by its name alone: secrets, then the globs of the settings."""
    path = path_of(uri)
    *folders, name = path.lower().split("/")
    for pattern in SECRET_NAMES:
        if fnmatchcase(name, pattern):
            message = f"Files named `{pattern}` hold keys or passwords; they are left alone."
            return Refusal(Reason.SECRET, message)
    for folder in folders:
        if folder in SECRET_FOLDERS:
            message = f"What lies in `{folder}` are keys or passwords; it is left alone."
            return Refusal(Reason.SECRET, message)
    for pattern in settings.exclude:
        if matches(path, pattern):
            return Refusal(Reason.EXCLUDED, f"The setting `exclude` has `{pattern}`.")
    return None


def path_of(uri: str) -> str:
    """The path of a URI with forward slashes; a plain path, or what is no URI, stays what it is."""
    path = uri
    if _SCHEME.match(uri):
        with suppress(ValueError):  # such as `file://[x`, which claims to hold an IPv6 address
            path = unquote(urlsplit(uri).path)
    return path.replace("\\", "/")


def matches(path: str, pattern: str) -> bool:
    """Globs as users write them: `*.md` for any name, `docs/` for a folder, `a/**/b.py`."""
    pattern = pattern.replace("\\", "/").removeprefix("./").removeprefix("**/")
    if pattern.endswith("/"):
        pattern += "*"
    wanted = {pattern, pattern.replace("/**/", "/")}
    return any(
        fnmatchcase(path, glob) or fnmatchcase(path, f"*/{glob.lstrip('/')}") for glob in wanted
    )


def is_too_large(text: str, max_bytes: int) -> bool:
    """Compare the size in UTF-8, encoding only where the number of characters cannot tell."""
    if len(text) * _MAX_BYTES_PER_CHARACTER <= max_bytes:
        return False
    return len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes


def is_binary(text: str) -> bool:
    """A NUL near the beginning: no text file has one."""
    return "\0" in text[:_BINARY_PROBE]
