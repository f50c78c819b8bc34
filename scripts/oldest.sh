#!/usr/bin/env bash
# Runs the tests of the Python client that stand on redis-py's insides with the oldest
# redis-py that it works with; with the newest they run in .venv.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

requirements=scripts/requirements-oldest.txt
venv=target/redis-oldest
# It is made anew with other requirements, with another Python, and where its Python is gone.
stamp() { cat "$requirements" && .venv/bin/python --version; }
if ! cmp --silent <(stamp) "$venv/stamp" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "installing $requirements"
    .venv/bin/python -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$requirements" </dev/null
    stamp >"$venv/stamp"
fi

# The native module was built into the package's directory.
export PYTHONPATH="$root/clients/python"
cd clients/python/tests
exec "$root/$venv/bin/python" -m pytest -q -p no:cacheprovider \
    test_client.py test_rows.py test_like_redis.py test_pipeline.py test_pubsub.py test_remote.py \
    test_asyncio.py test_asyncio_turns.py test_asyncio_replies.py test_asyncio_store.py \
    test_asyncio_sharing.py test_asyncio_crowded.py test_asyncio_rescue.py test_asyncio_kinds.py \
    test_topology.py test_fast_path.py test_line.py test_spelling.py "$@"
