"""Tests programs that pass arrays through a store: pools, queues, joblib, a mosec service."""

import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import undercroft
from undercroft.sharing import keep_arrays, share_arrays

LARGE = 40_000


@pytest.fixture
def shared(path):
    """Send this process's arrays through a store, and yield a client that inspects the store."""
    share_arrays(path)
    store = undercroft.Store(path)
    yield store
    keep_arrays()
    store.close()


def double(array):
    """Return the array multiplied by two, and a description of the received array."""
    return array * 2, array.flags.writeable, os.getpid()


def send(queue, count):
    """Send arrays of several sizes through a queue."""
    for number in range(count):
        queue.put((number, np.full(number * 1000, number, "int32")))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_shares_arrays(shared, path, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(
        2, mp_context=context, initializer=share_arrays, initargs=(path,)
    ) as pool:
        arrays = [np.arange(LARGE) + number for number in range(20)]
        for array, (doubled, writable, pid) in zip(arrays, pool.map(double, arrays), strict=True):
            assert np.array_equal(doubled, array * 2)
            assert not writable
            assert not doubled.flags.writeable
            assert pid != os.getpid()
    assert shared.dbsize() == 0


def test_multiprocessing_s_pool_and_queue_share_arrays(shared):
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        results = pool.map(double, [np.arange(LARGE)] * 5)
        assert all(np.array_equal(each[0], np.arange(LARGE) * 2) for each in results)
    queue = context.Queue()
    sender = context.Process(target=send, args=(queue, 40))
    sender.start()
    for number in range(40):
        found, array = queue.get()
        assert found == number
        assert np.array_equal(array, np.full(number * 1000, number, "int32"))
        # Small arrays are pickled as usual, so the receiver owns them.
        assert array.flags.writeable == (array.nbytes < 32 << 10)
    sender.join()
    assert shared.dbsize() == 0


def test_arrays_that_are_never_received_expire(path):
    share_arrays(path, at_least=8, ttl=1000)
    with undercroft.Store(path) as store:
        sent = bytes(ForkingPickler.dumps(np.arange(3)))
        (key,) = store.keys()
        assert 990 < store.ttl(key) <= 1000
        share_arrays(path, writable=True)
        assert pickle.loads(sent).tolist() == [0, 1, 2]
        with pytest.raises(KeyError):
            pickle.loads(sent)
        whole = pickle.loads(bytes(ForkingPickler.dumps(np.arange(LARGE))))
        whole[0] = 1
        keep_arrays()
        pickle.loads(bytes(ForkingPickler.dumps(np.arange(LARGE))))
        assert store.dbsize() == 0


def test_joblib_shares_arrays(path):
    joblib = pytest.importorskip("joblib")
    import undercroft.joblib

    undercroft.joblib.register()
    arrays = [np.arange(LARGE) + number for number in range(12)]
    with joblib.parallel_config("undercroft", store=path, n_jobs=2):
        results = joblib.Parallel()(joblib.delayed(double)(array) for array in arrays)
        with pytest.raises(ZeroDivisionError):
            joblib.Parallel()(joblib.delayed(divmod)(1, 0) for _ in range(3))
    for array, (doubled, writable, pid) in zip(arrays, results, strict=True):
        assert np.array_equal(doubled, array * 2)
        assert not writable
        assert pid != os.getpid()
    with undercroft.Store(path) as store:
        assert store.dbsize() == 0


def test_a_data_loader_shares_tensors(path):
    torch = pytest.importorskip("torch", reason="torch is not installed")

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return np.full((64, 64, 3), index, "float32")

    share_arrays(path, writable=True)
    loader = torch.utils.data.DataLoader(
        Images(), batch_size=4, num_workers=2, collate_fn=np.stack, multiprocessing_context="fork"
    )
    batches = [batch[:, 0, 0, 0].tolist() for batch in loader]
    keep_arrays()
    assert batches == [[float(first + each) for each in range(4)] for first in range(0, 40, 4)]
    with undercroft.Store(path) as store:
        assert store.dbsize() == 0


def post(port, number):
    """Request the sum of an array from the service."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/inference", data=b"%d" % number, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def test_a_mosec_service_passes_arrays_between_stages(path):
    """Two stages with two workers each answer many concurrent requests correctly."""
    pytest.importorskip("mosec")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    service = Path(__file__).with_name("mosec_service.py")
    with subprocess.Popen(
        [sys.executable, str(service), "--port", str(port), "--address", "127.0.0.1"],
        env={**os.environ, "UNDERCROFT_MOSEC_STORE": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said = []
        ready = threading.Event()

        def read():
            for line in process.stdout:
                said.append(line)
                if "http service is running" in line:
                    ready.set()
            ready.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert ready.wait(60)
            with concurrent.futures.ThreadPoolExecutor(8) as callers:
                sums = list(callers.map(lambda number: post(port, number), range(200)))
        finally:
            process.send_signal(signal.SIGINT)
            reader.join(60)
    assert sums == [b"%d" % (number * 100_000) for number in range(200)], "".join(said)
    with undercroft.Store(path) as store:
        assert store.dbsize() == 0
