#!/usr/bin/env python3
"""Lists the texts that users read: errors, help, log lines, reasons of lints, skipped tests.

Every text is one line with its file, line number and position (the call that receives it), so that
all texts can be read on one page and kept uniform in style.
"""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".rs": "rust", ".py": "python", ".php": "php", ".c": "c", ".h": "c", ".sh": "shell"}
EXAMPLES = """examples:
  scripts/testing/error_texts.py                      all texts of the product, tools and scripts
  scripts/testing/error_texts.py --tests clients/php  also those of tests, in one folder
  scripts/testing/error_texts.py --only '^raise'      only those that Python raises
"""

# The comments, string literals and brackets of each language. All other code is skipped.
STRING = r'"(?:[^"\\]|\\.)*"'
SINGLE = r"'(?:[^'\\]|\\.)*'"
BLOCK = r"/\*.*?\*/"
TOKENS = {
    "rust": (
        rf"//[^\n]*|{BLOCK}|b?r(?P<hashes>#*)\".*?\"(?P=hashes)|[bc]?{STRING}|'(?:\\.|[^\\'])'"
    ),
    "c": rf"//[^\n]*|{BLOCK}|{STRING}|{SINGLE}",
    "php": rf"//[^\n]*|\#(?!\[)[^\n]*|{BLOCK}|{STRING}|{SINGLE}",
    "shell": rf"(?<![\w$&{{])\#[^\n]*|{STRING}|'[^']*'",
}
BRACKETS = r"[(\[{]|[)\]}]|;"
COMMENT = ("//", "/*", "#")
# The name that precedes a bracket or a literal: `format!(`, `new \RuntimeException(`, `die "..."`.
NAME = re.compile(r"([\w\\:.>-]+!?)\s*$")
# The calls whose literals count as texts even if they are short.
RAISING = re.compile(
    r"""(?x) ^(?:raise|throw|error|die|fail|skip|warn|log|expect|reason|help|description|epilog)\b
    | (?:panic|unreachable|bail|anyhow|e?println?|assert\w*|unimplemented)!$
    | Err$ | Error\b | Exception\b | \b(?:expect|expect_err|fail|skip|warn|say|exit|die|abort)$
    """
)
SENTENCE = re.compile(r"[A-Za-z]{2,}[,:;]? [a-z{%$'`\"]\S* +\S*[a-z{%$]")


@dataclass(frozen=True)
class Text:
    """One text and its location."""

    file: str
    line: int
    position: str
    text: str

    def __str__(self) -> str:
        """Return the text's line in the list."""
        return f"{self.file}:{self.line}: [{self.position}] {self.text}"


def is_text(position: str, text: str) -> bool:
    """Return whether a literal's words and position suggest that people read it."""
    return bool(SENTENCE.search(text) or (RAISING.search(position) and " " in text.strip()))


def of_python(file: str, source: str) -> Iterator[Text]:
    """Yield the literals of a Python file that are not docstrings."""
    parents: dict[ast.AST, ast.AST] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))
    for node in ast.walk(tree):
        parent = parents.get(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            if isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
                continue
            text = (
                node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
            )
        elif isinstance(node, ast.JoinedStr) and not isinstance(parent, ast.FormattedValue):
            text = ast.unparse(node)[2:-1]
        else:
            continue
        position = "value"
        above: ast.AST | None = node
        while above is not None and not isinstance(above, ast.stmt):
            if isinstance(above, ast.Call):
                position = ast.unparse(above.func)
                break
            if isinstance(above, ast.keyword) and above.arg in ("help", "description", "epilog"):
                position = above.arg
                break
            above = parents.get(above)
        while above is not None and not isinstance(above, ast.stmt):
            above = parents.get(above)
        if isinstance(above, ast.Raise):
            position = f"raise {position}"
        elif isinstance(above, ast.Assert):
            position = "assert"
        yield Text(file, node.lineno, position, text)


def of_others(file: str, source: str, language: str) -> Iterator[Text]:
    """Yield the literals of a file in another language."""
    openers = [""]
    parts: list[str] = []
    first, after = 0, 0
    tokens = re.compile(f"{TOKENS[language]}|{BRACKETS}", re.DOTALL)
    for found in tokens.finditer(source):
        token = found[0]
        between = source[after : found.start()]
        # Adjacent literals, or literals joined by an operator, form one text.
        if parts and between.strip(" \n\t.") == "" and token[-1] in "\"'":
            parts.append(re.sub(r"^\w*#*[\"']|[\"']#*$", "", token))
        elif not token.startswith(COMMENT):
            if parts:
                yield Text(file, first, openers[-1] or "value", "".join(parts))
                parts = []
            if token in "([{":
                name = NAME.search(source[max(0, found.start() - 80) : found.start()])
                openers.append(
                    name[1] if name and token != "{" else openers[-1] if token != "{" else ""
                )
            elif token in ")]}":
                openers = openers[:-1] or [""]
            elif token != ";" and len(token) > 3:
                first = source.count("\n", 0, found.start()) + 1
                parts = [re.sub(r"^\w*#*[\"']|[\"']#*$", "", token)]
        if not token.startswith(COMMENT):
            after = found.end()
    if parts:
        yield Text(file, first, openers[-1] or "value", "".join(parts))


def texts(paths: list[str], tests: bool) -> Iterator[Text]:
    """Yield all texts in the files below these paths that git tracks."""
    command = ["git", "ls-files", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in listed.splitlines():
        language = SUFFIXES.get(Path(file).suffix)
        if language is None or (not tests and re.search(r"(^|[/_])tests?([/_.]|$)", file)):
            continue
        source = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        found = (
            of_python(file, source) if language == "python" else of_others(file, source, language)
        )
        for text in found:
            whole = re.sub(r"\\?\n\s*", " ", text.text).strip()
            if is_text(text.position, whole):
                yield Text(text.file, text.line, text.position, whole)


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="files or folders to list (default: all)")
    parser.add_argument("--tests", action="store_true", help="include the texts of test files")
    parser.add_argument("--only", metavar="REGEX", help="list only positions that match")
    chosen = parser.parse_args()
    for text in texts(chosen.paths, chosen.tests):
        if not chosen.only or re.search(chosen.only, text.position):
            print(text)


if __name__ == "__main__":
    main()
