"""Where tabahead keeps its files: the platform's folders, or all below `TABAHEAD_HOME`."""

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lsp_server.errors import StorageError


@dataclass(frozen=True, slots=True)
class Paths:
    cache: Path
    """Things that can be made again: models, downloads, measured cost curves."""
    config: Path
    """The user's `settings.toml`."""
    state: Path
    """Local counters."""

    @property
    def models(self) -> Path:
        return self.cache / "models"

    @property
    def downloads(self) -> Path:
        return self.cache / "downloads"

    @property
    def costs(self) -> Path:
        return self.cache / "costs"


def paths() -> Paths:
    """Read the environment at each call, so that tests and users can move everything.

    Raises StorageError where it names the home of a user who has none.
    """
    home = os.environ.get("TABAHEAD_HOME")
    if home:
        root = expanded(home)
        if root.parts[:1] and root.parts[0].startswith("~"):
            raise StorageError(
                f"TABAHEAD_HOME begins with {root.parts[0]}, and there is no such home; give the"
                " folder's whole path."
            )
        return Paths(cache=root / "cache", config=root / "config", state=root / "state")
    dirs = platformdirs.PlatformDirs("tabahead", appauthor=False)
    return Paths(
        cache=Path(dirs.user_cache_dir),
        config=Path(dirs.user_config_dir),
        state=Path(dirs.user_state_dir),
    )


def expanded(name: str) -> Path:
    """A path as users write it; a `~` of nobody's home stays, as it does in shells."""
    return Path(os.path.expanduser(name))
