# SPDX-License-Identifier: Apache-2.0
"""Shared by scripts that measure the peers of `trireme bench data`: lines "rate NAME WORKERS SAMPLES_PER_SECOND" of
map-style data sets."""
import argparse
import multiprocessing
import threading
import time

BATCH = 16


def arguments_of(description, paths):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(paths, nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    return parser


def passes(dataset, seconds, first=0):
    """Reads samples one after another from number `first` on for `seconds`; returns their number and the time."""
    done, start = 0, time.perf_counter()
    while True:
        dataset[(first + done) % len(dataset)]
        done += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return done, elapsed


def rate_alone(dataset, seconds):
    done, elapsed = passes(dataset, seconds)
    return done / elapsed


def rate_of_threads(dataset, workers, seconds):
    rates = [0.0] * workers

    def run(worker):
        done, elapsed = passes(dataset, seconds, worker * len(dataset) // workers)
        rates[worker] = done / elapsed

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _in_process(job):
    dataset, worker, workers, seconds, barrier = *job, _BARRIER
    barrier.wait()
    done, elapsed = passes(dataset, seconds, worker * len(dataset) // workers)
    return done / elapsed


def _keep_barrier(barrier):
    global _BARRIER
    _BARRIER = barrier


def rates_of_processes(dataset, workers, seconds, rounds):
    """Processes that keep their samples: without the transfer back that a loader needs."""
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, _keep_barrier, (context.Barrier(workers),)) as pool:
        jobs = [(dataset, worker, workers, seconds) for worker in range(workers)]
        return [sum(pool.map(_in_process, jobs, chunksize=1)) for _ in range(rounds)]


def loader_rates(dataset, workers, seconds, rounds):
    """PyTorch's DataLoader; raises ImportError without PyTorch."""
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=True, prefetch_factor=4)

    def rate(limit):
        done, start = 0, time.perf_counter()
        while True:
            for batch in loader:
                done += len(batch)
                elapsed = time.perf_counter() - start
                if elapsed >= limit:
                    return done / elapsed

    rate(1)
    return [rate(4 * seconds) for _ in range(rounds)]


def show(name, workers, rates):
    print("rate", name, workers, max(rates), flush=True)
