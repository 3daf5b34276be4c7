"""Keys, tokens and passwords by their look: what is found, what is let be, and what is left out."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.files.secret_text import PLACEHOLDER, Redactor, has_private_key, is_random, redact

ROOT = Path(__file__).parents[2]
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDE0xXmUkZ8f0a1"
KEYS = (
    f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n",
    f"-----BEGIN RSA PRIVATE KEY-----\r\n{BODY}\r\n",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}",
    "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
    f"DEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n{BODY}\n",
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{BODY}\n",
    f'key = """\n    -----BEGIN PRIVATE KEY-----\n    {BODY}\n"""\n',
    f'{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{BODY}\\n"}}',
    f"PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: x\nPublic-Lines: 6\n{BODY}\n",
)
NO_KEYS = (
    'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError("a key")\n',
    'HEADER = "-----BEGIN RSA PRIVATE KEY-----"\nFOOTER = "-----END RSA PRIVATE KEY-----"\n',
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n",
    f"-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----\n",
    f"-----BEGIN PUBLIC KEY-----\n{BODY}\n",
    "The PRIVATE KEY " + "of_a_function_with_a_very_long_name_that_goes_on_and_on = 1",
    'HEADER = "-----BEGIN PRIVATE KEY-----";\n\n@Test\n'
    "void shouldThrowWhenPkcs8PrivateKeyHeaderIsFollowedByGarbage() {}\n",
    'const header = "-----BEGIN RSA PRIVATE KEY-----"\n'
    "// one lies in src/test/resources/fixtures/keys/Rsa2048PrivateKeyPkcs8\n",
    "",
)
# In two pieces each: whole, they would look like tokens to those who scan this repository.
TOKENS = tuple(
    "".join(parts)
    for parts in (
        ("AKIA", "IOSFODNN7EXAMPLE"),
        ("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"),
        ("github_pat_", "11ABCDEFG0aBcDeFgHiJkLmNoPqRsTuVwXyZ"),
        ("glpat-", "Zx8Yw7Vu6Ts5Rq4Po3Nm"),
        ("xoxb-", "17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzzqgy"),
        ("sk-", "proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4"),
        ("sk_live_", "4eC39HqLyjWDarjtT1zdp7dc"),
        ("AIza", "SyA1bC2dE3fG4hI5jK6lM7nO8pQ9rS0tU1v"),
        ("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3"),
        ("npm_", "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"),
        ("hf_", "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH"),
        ("glrt-", "pLIix6MEOLeMa61EqJom"),
        ("xapp-", "1-A01BCDEF2GH-1234567890123-ffc474c0251908fcdce4b314f68d9dcb"),
        ("sk_test_", "ILALo5vR67b2rMQSkS3u9I5K"),
        ("whsec_", "KgTPnO1KrsheE2OEfwZeA5jbsBXA3hcM"),
        ("dckr_pat_", "NWcyTLvJ47rGpctaegMIc8mAsNq"),
        ("shpat_", "41aab4ccec38d79d89a0da0c41aebb8f"),
        ("hvs.", "bLd9Rb9xqODtLMulxluWx2MqtYygX0bKRVitGoPZ"),
        ("dapi", "87a5d33aa7e52a6e87316a58a2b4d98e"),
        ("gsk_", "wOAsAKAc6AjmaE814NGBJ87TocVD1WQVH9sIv4o3e2LshZpcc5ZS"),
        ("r8_", "G7m545BKdaEVhkGtpQbHIAd86Nhviq3IEZYdw"),
        ("AGE-SECRET-KEY-1", "WV88203GQLER303MR75QRGZ8RY7Z9L525YKCCNHSV4M8GQC9TZHACZMRHL"),
    )
)
PASSWORDS = (
    'password = "S3cr3t!Passw0rd"',
    "PASSWORD: 'x9$Kq2!mZp'",
    'client_secret="8f14e45fceea167a5a36dedd4bea2543"',
    'self._api_key: str = "q7Wz2Lk9Pd4Rt6Yx"',
    'config["token"] = `aB3-dE5_fG7hI9jK1`',
    'connect(user="a", password="p4$$W0rD-x9")',
    'set_password("x9$Kq2!mZp")',
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI1K7MDENGbPxRfiCYEXAMPLEKEY9",
    "export API_TOKEN=a1b2c3d4e5f6a7b8c9d0",
    'dsn = "Server=db;User Id=sa;Password=q7Wz2Lk9Pd4Rt6Yx"',
    'storage = "AccountName=a;AccountKey=q7Wz2Lk9+d4Rt6Yx8Bn1/c5Vm3Zs0w=="',
    'url = "jdbc:mysql://db/shop?user=a&password=q7Wz2Lk9Pd4Rt6Yx"',
    "SECRET_KEY = 'django-insecure-2g(b&2s7n(1phj9gb)x5l$@y9txzv%g1&k@'",
    'DB_PASS="x9$Kq2!mZp"',
    'auth: { user: "a", pass: "x9$Kq2!mZp" }',
    'credential = "q7Wz2Lk9Pd4Rt6Yx"',
    'headers = {"Authorization": "Bearer q7Wz2Lk9Pd4Rt6Yx8Bn1"}',
    "curl -H 'Authorization: Basic YTpxN1d6Mkxr9VBkNFJ0Nll4='",
)
INNOCENT = (
    'password = "password"',
    'password = getpass.getpass("Password: ")',
    "token = tokens[i + 1]",
    'token_type = "access_token"',
    'secret_name = "projects/my-project/secrets/database"',
    'key = "max_position_embeddings_2"',
    'key="model.layers.0.self_attn.q_proj.weight"',
    'PASSWORD = os.environ["DB_PASSWORD"]',
    "password: ${DB_PASSWORD}",
    'token = "{{ github.token }}"',
    'password_pattern = r"[A-Za-z0-9_]{20,}"',
    'api_key = "your-api-key-here"',
    "this.tokenKind = SyntaxKind.CloseBraceToken2",
    ".sk-cube-grid .sk-cube-animation-delay { color: red; }",
    "eyJ is how they begin",
    'url = "https://example.org:8080/a@b"',
    "key=lambda item: item.position",
    'Authorization: "Bearer your-access-token-goes-here"',
    "Basic authentication_of_users and Bearer token_of_the_session",
    'pass_through = "get_password(user_2)"',
    'bypass = "assets/img/logo-2024.min.png"',
)


@pytest.mark.parametrize("text", KEYS)
def test_a_key_with_its_body_is_found_however_it_is_written(text):
    assert has_private_key(text)
    assert has_private_key("x = 1\n" * 1000 + text)
    assert redact(text) == ""


@pytest.mark.parametrize("text", NO_KEYS)
def test_code_about_keys_and_public_keys_are_none(text):
    assert not has_private_key(text)
    assert redact(text) == text


def test_the_shortest_keys_are_found():
    """Those of Ed25519, of one line."""
    random = Random(0)
    for _ in range(10_000):
        key = bytes.fromhex("302e020100300506032b657004220420") + random.randbytes(32)
        assert has_private_key(f"-----BEGIN PRIVATE KEY-----\n{b64encode(key).decode()}\n")


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("line", ['x = "{}"', "curl -H 'Authorization: {}' $URL", "{}"])
def test_a_token_of_a_known_service_is_left_out_wherever_it_stands(token, line):
    assert redact(f"a\n{line.format(token)}\nb") == f"a\n{line.format(PLACEHOLDER)}\nb"


@pytest.mark.parametrize("line", PASSWORDS)
def test_a_password_is_left_out_and_nothing_else_of_its_line(line):
    redacted = redact(f"x\n{line}\ny\n")
    assert redacted.count(PLACEHOLDER) == 1
    head, tail = redacted.split(PLACEHOLDER)
    assert f"x\n{line}\ny\n".startswith(head)
    assert f"x\n{line}\ny\n".endswith(tail)
    value = f"x\n{line}\ny\n".removeprefix(head).removesuffix(tail)
    assert is_random(value)


@pytest.mark.parametrize("line", INNOCENT)
def test_names_phrases_patterns_and_expressions_stay(line):
    assert redact(line) == line


def test_the_password_of_an_address_is_left_out():
    text = 'url = "postgres://admin:hunter2@db.example.org/shop"'
    assert redact(text) == f'url = "postgres://admin:{PLACEHOLDER}@db.example.org/shop"'


def test_ordinary_texts_have_no_keys_and_hardly_a_secret():
    """All of this project but its tests."""
    folders = [ROOT / name for name in ("lsp_server", "models", "export", "tests/samples")]
    files = [ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*.py"))]
    texts = {file: file.read_text("utf-8") for file in files}
    assert len(texts) > 100
    assert [file for file, text in texts.items() if has_private_key(text)] == []
    assert (
        sum(redact(text).count(PLACEHOLDER) > text.count(PLACEHOLDER) for text in texts.values())
        <= 2
    )


lines = st.lists(
    st.sampled_from([*PASSWORDS, *INNOCENT, "", "x = 1", "y", *TOKENS[:2]]), max_size=8
)


@given(lines, lines, lines, lines, st.sampled_from(["\n", "\r\n"]), st.integers(0, 40))
def test_a_changed_text_is_redacted_as_a_new_one_is(head, before, after, tail, line_end, cut):
    """Also where the change does not end with a line."""
    one, other = (line_end.join((*head, *middle, *tail)) for middle in (before, after))
    redactor = Redactor()
    for text in (one, other, other[:cut] + other[cut + 1 :], other + "x", "", one):
        assert redactor.redact("key", text) == redact(text)


@given(st.text(st.sampled_from("pasword=:\"' \nA1b2C3!_-.token"), max_size=80))
def test_what_is_redacted_has_the_same_lines_and_no_secrets_left(text):
    redacted = redact(text)
    assert redacted.count("\n") == text.count("\n")
    assert redact(redacted) == redacted


def test_texts_are_remembered_in_bounded_number_and_can_be_forgotten():
    redactor = Redactor(max_texts=3)
    for n in range(10):
        redactor.redact(str(n), f"x = {n}\n")
    assert len(redactor) == 3
    redactor.forget("9")
    redactor.forget("absent")
    assert len(redactor) == 2
