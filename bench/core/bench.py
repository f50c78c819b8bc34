"""The settings of a run, which every function that measures a group of rows receives."""

import dataclasses
import re
import tempfile
from pathlib import Path


@dataclasses.dataclass
class Bench:
    """The directories that a run uses, and whether it is a quick run."""

    scratch: Path
    binaries: Path
    quick: bool

    def directory(self) -> Path:
        """Return a new directory in shared memory that is removed at the end of the run."""
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def without_places(self, text: object) -> str:
        """Return text with the paths of temporary directories removed, for a table's notes."""
        return re.sub(rf"{re.escape(str(self.scratch))}(/tmp\w+)?/?", "", str(text))

    def pick(self, quick: int, full: int) -> int:
        """Return ``quick`` in a quick run, and ``full`` otherwise."""
        return quick if self.quick else full
