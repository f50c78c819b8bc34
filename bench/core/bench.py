"""What every group of rows is told."""

import dataclasses
import re
import tempfile
from pathlib import Path


@dataclasses.dataclass
class Bench:
    """Where things are, and how long measuring may take."""

    scratch: Path
    binaries: Path
    quick: bool

    def directory(self) -> Path:
        """Return a new directory in shared memory, removed at the end."""
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def without_places(self, text: object) -> str:
        """Return a text for the table, without the directories that went with the measuring."""
        return re.sub(rf"{re.escape(str(self.scratch))}(/tmp\w+)?/?", "", str(text))

    def pick(self, quick: int, full: int) -> int:
        """Return how many: of rounds, of operations."""
        return quick if self.quick else full
