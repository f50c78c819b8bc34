#!/usr/bin/env bash
# Usage: scripts/packaging/installed.sh WHEEL
# Installs a wheel or a source distribution in an empty virtual environment, and runs the first
# samples of README.md there, in Python and with the command.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

wheel=$(realpath "${1:?which wheel}")
scripts/setup/environment.sh

say "installing $(basename "$wheel") in an empty environment"
venv=target/test/installed
.venv/bin/python -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" </dev/null

"$venv/bin/python" scripts/testing/readme.py README.md

# The command, the module and the distribution must have the same version.
python=$root/$venv/bin/python
cd /
version=$("$python" -c 'import undercroft; print(undercroft.__version__)')
[[ $("$python" -c 'import importlib.metadata as m; print(m.version("undercroft"))') == "$version" ]] ||
    fail "the distribution does not have version $version"
[[ $("$python" -m undercroft --version) == "undercroft $version" ]] ||
    fail "python -m undercroft does not have version $version"
[[ $("$(dirname "$python")/undercroft" --version) == "undercroft $version" ]] ||
    fail "the command does not have version $version"
say "$(basename "$wheel") works"
