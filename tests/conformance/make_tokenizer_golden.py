"""Record llama.cpp's token ids for 200 files: the oracle of `test_tokenizer_golden.py`.

    pip install xllamacpp      # llama.cpp's own code as a prebuilt package; 2026.10.11549 was used
    python tests/conformance/make_tokenizer_golden.py CHECKPOINT.gguf ../shared/data/humaneval-x

Writes `tokenizer_golden.json.gz`: a list of {name, parse_special, text, ids}. Texts named
`humaneval-x/...` are from THUDM/CodeGeeX (Apache-2.0), some with other line ends, indents or signs
put in, as their names say; the others were written for this test.
"""

# ruff: noqa: E501 - one text a line is easier to compare than wrapped ones

from __future__ import annotations

import argparse
import gzip
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LANGUAGES = ("python", "js", "go", "java", "cpp", "rust")
PLAIN_PER_LANGUAGE = 20
OUT = Path(__file__).with_name("tokenizer_golden.json.gz")

VARIANTS: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "tabs": lambda text: text.replace("    ", "\t"),
    "emoji": lambda text: text.replace(
        "return", "return /* \U0001f600\U0001f469\u200d\U0001f4bb */"
    ),
    "comments": lambda text: text.replace("\n", "  # Grüße, мир, 世界, שלום 12٣४\n"),
    "cr": lambda text: text.replace("\n", "\r"),
}

ODD_TEXTS = {
    "empty-lines": "\n\n\n   \n\t\n  \n\n",
    "spaces": "a  b   c    d     e      f\n        g         h          ",
    "tabs-and-spaces": "\tif x:\n\t    y = 1\n  \t  z\t=\t2\t\n",
    "trailing": "x = 1   \ny = 2\t\t\n   ",
    "leading-space": "   leading",
    "contractions": "it's I'm you're we've he'd she'll don't IT'S I'M 'S 's 'll''d'x \u2019s don\u2019t",
    "digits": "0 1 12 123 1234567890 3.14159 1e-10 0xFF 0b1010 v1.2.3 x86_64 utf8 2026-11-29",
    "other-digits": "\u0663\u0664\u0665 \u096a\u096b \uff11\uff12\uff13 \u2167 \u00bd \u00b2\u2083 \u2460 \u4e00\u4e8c\u4e09 \u3007",
    "emoji": "\U0001f600\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f 1\ufe0f\u20e3 \u2728done\u2728",
    "combining": "e\u0301 n\u0303 a\u0308o\u0308 \u0915\u094d\u0937\u093f \u0e01\u0e33 Z\u0351\u036f\u0321a\u0358",
    "japanese": "# \u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3002\u300c\u95a2\u6570\u300d\u3092\u5b9a\u7fa9\u3059\u308b\ndef f(\u5f15\u6570):\n    return \u5f15\u6570\n",
    "chinese": "// \u8ba1\u7b97\u4e24\u4e2a\u6570\u7684\u548c\uff0c\u8fd4\u56de\u7ed3\u679c\u3002\nint \u548c = a + b;\n",
    "korean": "# \uc548\ub155\ud558\uc138\uc694 \uc138\uacc4\nprint('\ud55c\uad6d\uc5b4')\n",
    "russian": "# \u0412\u044b\u0447\u0438\u0441\u043b\u044f\u0435\u0442 \u0441\u0443\u043c\u043c\u0443 \u0434\u0432\u0443\u0445 \u0447\u0438\u0441\u0435\u043b 10 \u0438 20\n",
    "arabic": "// \u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663\n",
    "hebrew": "# \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd\n",
    "hindi": "# \u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0967\u0968\u0969\n",
    "thai": "# \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01\n",
    "greek-math": "\u03b1 + \u03b2 \u2264 \u03b3 \u2211\u1d62 x\u1d62 \u2208 \u211d \u21d2 \u2200\u03b5>0 \U0001d4d0\U0001d7d9",
    "turkish-german": "\u0130stanbul \u0131\u015f\u0131k Stra\u00dfe \u1e9e \u01c5 \ufb01ne",
    "box-drawing": "\u250c\u2500\u2500\u2510\n\u2502 x\u2502\n\u2514\u2500\u2500\u2518 \u2588\u2591",
    "spaces-of-unicode": "a\u00a0b\u2003c\u3000d\u2009e\u202ff\u1680g\u205fh",
    "line-ends-of-unicode": "a\u2028b\u2029c\u0085d\u000be\u000cf\rg\r\nh",
    "zero-width": "\ufeffimport os\u200b\u200c\u200d\u2060 x\u00ady",
    "control": "a\x00b\x01\x02\x1b[31mred\x1b[0m\x7f",
    "private-use": "\ue0a0 \ue0b0 \uf8ff \U000f0001",
    "rare-planes": "\U00020000\U0002a6d6 \U00010348 \U0001d11e \U0001f9ff \U000e0041",
    "surrounded": "\u201cquoted\u201d \u00abguillemets\u00bb \u2014 em\u2014dash \u2026 \u2022 bullet \u00a7\u00b6",
    "markers": "<|endoftext|><|im_start|>user\nhello<|im_end|> <repo_name>x<file_sep> <|im_end",
    "brackets": "((([[[{{{}}}]]]))) <<>> ==!= => -> :: ... ;;; /* */ // ### $$ @@ ``` ~~~ ^^ || &&",
    "operators": "x+=1;y-=2;z**=3;a//=4;b>>=5;c<<=6;d&=7;e|=8;f^=~9;g=h?i:j;k=l??m;n?.o",
    "names": "camelCase PascalCase snake_case SCREAMING_CASE kebab-case _private __dunder__ a1b2c3 $jquery",
    "base64": "dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw== 9f86d081884c7d65",
    "minified": '!function(e,t){"object"==typeof exports?t(exports):t(e.a={})}(this,function(e){var n=1e3;});',
    "json": '{"name": "x", "list": [1, 2.5, null, true], "nested": {"key": "va\\"lue\\n"}}',
    "html": "<!DOCTYPE html>\n<div class=\"a b\" id='c'>&nbsp;&amp; text</div>\n<br/>",
    "sql": "SELECT a.*, COUNT(*) FROM t AS a WHERE x >= 10 AND y LIKE '%z%' GROUP BY 1;",
    "shell": '#!/bin/sh\nset -euo pipefail\nfor f in *.txt; do echo "${f%.txt}" >&2; done\n',
    "regex": r"^(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9]+)*)\s*$\d{3}\\n\t",
    "latex": r"\begin{equation} \frac{a_1}{b^2} = \sum_{i=0}^{n} x_i \end{equation} % done",
    "makefile": "all: main.o\n\t$(CC) -o $@ $^\n\n.PHONY: clean\nclean:\n\trm -f *.o\n",
    "markdown": "# Title\n\n- item **bold** _it_\n1. one\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "haskell": "main :: IO ()\nmain = mapM_ (print . (*2)) $ filter even [1..10]\n",
    "lisp": "(defun fact (n) (if (<= n 1) 1 (* n (fact (- n 1)))))",
    "assembly": "mov eax, dword ptr [rbp-0x14]\n\tadd\teax, 1\n.L2:\tjmp\t.L3\n",
    "bytes-without-token": "a\x04b\x13c\x14d\x16e\x1df\U00050000g",
    "long-run": "=" * 100 + "\n" + "-" * 77 + "\n" + " " * 130 + "x" + "\t" * 20 + "y",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("humaneval_x", type=Path)
    arguments = parser.parse_args()
    tokenize = _server(arguments.checkpoint)
    records = [
        {
            "name": name,
            "parse_special": parse_special,
            "text": text,
            "ids": tokenize(text, parse_special),
        }
        for name, parse_special, text in _texts(arguments.humaneval_x)
    ]
    data = json.dumps(records, ensure_ascii=True, separators=(",", ":")).encode()
    OUT.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{OUT}: {len(records)} texts, {sum(len(record['ids']) for record in records)} ids")


def _texts(folder: Path) -> Iterator[tuple[str, bool, str]]:
    variants = list(VARIANTS.items())
    for language in LANGUAGES:
        files = list(_solutions(folder / f"humaneval_{language}.jsonl.gz"))
        for index, text in enumerate(files[:PLAIN_PER_LANGUAGE]):
            yield f"humaneval-x/{language}/{index}", False, text
        for offset, (kind, change) in enumerate(variants):
            index = PLAIN_PER_LANGUAGE + offset
            yield f"humaneval-x/{language}/{index}/{kind}", False, change(files[index])
    for name, text in ODD_TEXTS.items():
        yield name, False, text
    for name in ("markers", "emoji", "html"):
        yield f"{name}/parse-special", True, ODD_TEXTS[name]


def _solutions(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield record.get("declaration", "") + record["prompt"] + record["canonical_solution"]


def _server(checkpoint: Path) -> Callable[[str, bool], list[int]]:
    """llama.cpp's own server in this process; its `/tokenize` has the `parse_special` switch."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(checkpoint)
    parameters.n_ctx = 512
    parameters.warmup = False
    server: Any = xllamacpp.Server(parameters)

    def tokenize(text: str, parse_special: bool) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": parse_special}
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            ids: list[int] = json.load(answer)["tokens"]
        return ids

    return tokenize


if __name__ == "__main__":
    main()
