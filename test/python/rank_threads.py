# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that are threads of a test."""

import threading

from conftest import SLOWDOWN

from attn.torch import local_ranks

#: Ranks compile functions, at different times.
SECONDS = 120 * SLOWDOWN


def run_threads(size, body, timeout=SECONDS):
    """What ``body`` returns for each rank, or the exception that it raises."""
    group, results = local_ranks(size, timeout), [None] * size

    def run(rank):
        try:
            results[rank] = body(group[rank])
        except Exception as error:  # noqa: BLE001
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ranks in group:
        ranks.close()
    return results


def get_results(size, body):
    """What ``body`` returns for each rank; raises the exception of one that fails."""
    results = run_threads(size, body)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
