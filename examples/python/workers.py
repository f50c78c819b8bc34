"""Several worker processes share a cache and counters without a server.

Each worker processes a list of pages, looks every page up in the store, "renders" missing pages,
and counts its work:

    python workers.py undercroft://pages
"""

import multiprocessing
import sys
import tempfile

import undercroft

WORKERS = 4
PAGES = [f"/page/{number % 50}" for number in range(1000)]


def render(page: str) -> str:
    """Return a page's HTML, simulating an expensive rendering."""
    return f"<h1>{page}</h1>" * 100


def work(url: str) -> None:
    """Serve pages until none are left."""
    with undercroft.Redis.from_url(url, decode_responses=True) as r:
        while (ticket := r.incr("tickets")) <= len(PAGES):
            page = PAGES[ticket - 1]
            html = r.get(page)
            if html is None:
                html = render(page)
                # The first worker that needs the page stores it in the cache, where it expires
                # after a minute.
                r.set(page, html, ex=60, nx=True)
                r.incr("misses")
            assert html == render(page)
            r.incr("served")


def main(url: str) -> None:
    """Start the workers on a store, wait for them, and print their combined results."""
    with undercroft.Redis.from_url(url, decode_responses=True) as r:
        r.delete("tickets", "served", "misses", *r.keys("/page/*"))
        processes = [multiprocessing.Process(target=work, args=(url,)) for _ in range(WORKERS)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        served, misses = (int(count or 0) for count in r.mget("served", "misses"))
        cached = len(r.keys("/page/*"))
        print(f"{WORKERS} workers served {served} pages; {cached} are in the cache")
        print("every page was made at least once:", misses >= cached)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
            main(f"undercroft://{directory}/store")
