"""onnxruntime: that exactly one build of it is installed, how sessions are set up, where they run.

The only place besides `onnx_*.py` that imports it, and always lazily: importing it is slow, loads a
telemetry client unless told not to, and some of its parts write to stdout.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

from lsp_server.errors import ModelFilesError, RuntimeMissingError, SettingsError

# All of these install the same `onnxruntime` folder and overwrite each other.
_DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-windowsml",
    "onnxruntime-migraphx",
    "onnxruntime-rocm",
)
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_OPTIONS = {
    # A captured graph replays on the addresses of the pass it was captured from, but the widths of
    # passes vary, and all documents share one session.
    PROVIDERS["cuda"]: {"enable_cuda_graph": "0"},
}


def installed_runtimes() -> dict[str, str]:
    """Installed onnxruntime distributions and their versions."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def import_runtime() -> ModuleType:
    """The onnxruntime module, if exactly one build is installed; else RuntimeMissingError."""
    found = installed_runtimes()
    if not found:
        raise RuntimeMissingError(
            "No onnxruntime is installed; install one with `pip install onnxruntime`"
            " (or `onnxruntime-gpu` for an NVIDIA GPU)."
        )
    if len(found) > 1:
        names = " and ".join(found)
        raise RuntimeMissingError(
            f"{names} are installed together and overwrite each other's files; run"
            f" `pip uninstall {' '.join(found)}` and install exactly one of them again."
        )
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise RuntimeMissingError(
            f"onnxruntime is installed but cannot be imported ({error}); reinstall it with"
            f" `pip install --force-reinstall {next(iter(found))}`."
        ) from error


def physical_cores() -> int:
    """Cores this process may use, counting hyper-threads of one core once where Linux tells."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    cores = set()
    for cpu in cpus:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text().strip())
        except OSError:
            return len(cpus)
    return len(cores) or 1


def processor_name() -> str:
    """What the processor calls itself, where Linux or Python tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
            name = next(names, "")
    except OSError:
        name = ""
    return name.strip() or platform.processor() or platform.machine()


def default_threads() -> int:
    """min(cores, 4), minus one above two, so that the editor keeps a core."""
    threads = min(physical_cores(), 4)
    return threads - 1 if threads > 2 else threads


def choose_provider(ort: ModuleType, wanted: str) -> str:
    """`auto`, `cpu` or `cuda` -> the provider's name in onnxruntime.

    An installed GPU build lists CUDA even where no GPU is; what really runs is checked after the
    session is made (`create_session`).
    """
    available = ort.get_available_providers()
    if wanted == "auto":
        return PROVIDERS["cuda"] if PROVIDERS["cuda"] in available else PROVIDERS["cpu"]
    name = PROVIDERS.get(wanted)
    if name is None:
        raise SettingsError(
            f"Unknown provider {wanted!r}; choose one of auto, {', '.join(PROVIDERS)}."
        )
    if name not in available:
        raise SettingsError(
            f"Provider {wanted!r} is not in this onnxruntime (it has {', '.join(available)});"
            " install `onnxruntime-gpu` in its place or set engine.provider to auto."
        )
    return name


def create_session(ort: ModuleType, path: Path, *, threads: int, provider: str) -> Any:
    """An InferenceSession for `path`, without spinning threads. Raises ModelFilesError.

    Spinning makes every other program on the machine slower and gains nothing when a core is taken.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = False  # widths vary from pass to pass
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        providers = [(provider, _OPTIONS.get(provider, {}))]
        return ort.InferenceSession(str(path), options, providers=providers)
    except Exception as error:
        raise ModelFilesError(
            f"{path} cannot be loaded by onnxruntime {ort.__version__} ({error}); fetch the model"
            " again or run `tabahead doctor`."
        ) from error
