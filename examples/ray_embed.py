"""Embeds a corpus on a local Ray cluster of three workers, one of which is killed on the way.

    python examples/ray_embed.py MODEL_DIR

Ray gives the batch of the lost worker to another one. At the end every document is there, once, and
the vectors are byte for byte those of one process.
"""
from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time

# Before ray is imported: nothing is sent, and no token is written to the home directory.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"

import numpy as np
import ray

import warpgroup
import warpgroup.ray

WORKERS = 3


class Worker(warpgroup.ray.Embedder):
    """Says in which process a row was embedded, so that one of them can be killed, and is slow
    enough for that to happen on the way."""

    def __call__(self, batch):
        time.sleep(0.2)
        batch = super().__call__(batch)
        batch["process"] = np.full(len(batch["id"]), os.getpid())
        return batch


def corpus(count: int) -> list[dict]:
    """Documents of 1 to 150 words."""
    draw = np.random.default_rng(7)
    words = "the a cat ran from signal to light over many quiet hills and it was good".split()
    return [{"id": i, "text": " ".join(draw.choice(words, draw.integers(1, 150)))}
            for i in range(count)]


def embed(model: str, documents: list[dict]) -> tuple[dict[int, bytes], int, set[int]]:
    """Vectors by id, the process that was killed, and all that had a part in it."""
    dataset = ray.data.from_items(documents, override_num_blocks=24)
    dataset = dataset.map_batches(Worker, fn_constructor_kwargs={"model": model, "threads": 1},
                                  batch_size=None, num_cpus=1,
                                  compute=ray.data.ActorPoolStrategy(size=WORKERS))
    vectors: dict[int, bytes] = {}
    processes: set[int] = set()
    killed = 0
    for batch in dataset.iter_batches(batch_size=None, prefetch_batches=0):
        processes.update(batch["process"].tolist())
        for row, vector in zip(batch["id"].tolist(), batch["embedding"]):
            assert row not in vectors, f"document {row} came twice"
            vectors[row] = np.ascontiguousarray(vector, np.float32).tobytes()
        if not killed:
            killed = int(batch["process"][0])
            os.kill(killed, signal.SIGKILL)
    return vectors, killed, processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=300)
    arguments = parser.parse_args()
    model = os.path.abspath(arguments.model)
    documents = corpus(arguments.documents)
    folder = tempfile.mkdtemp(prefix="ray")
    try:
        ray.init(num_cpus=WORKERS, object_store_memory=100 * 2**20, include_dashboard=False,
                 log_to_driver=False, _temp_dir=folder)
        vectors, killed, processes = embed(model, documents)
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

    alone = warpgroup.Embedder(model).encode([document["text"] for document in documents])
    assert sorted(vectors) == [document["id"] for document in documents], "documents were lost"
    different = sum(vectors[i] != row.tobytes() for i, row in enumerate(alone))
    assert different == 0, f"{different} vectors differ from those of one process"
    assert len(processes) >= 2, "one process did everything"
    print(f"{len(vectors)} documents by {len(processes)} processes, one killed; "
          "the same bytes as one process")


if __name__ == "__main__":
    main()
