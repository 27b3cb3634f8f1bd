"""Hadal's server beside llama.cpp's: requests a second, latency and processor time of a request.

    llama_server.py make FILE.gguf MODEL                  a model to compare with; wants the package gguf
    llama_server.py run LLAMA FILE.gguf HADAL MODEL [ROUNDS [CSV]]

LLAMA is llama.cpp's llama-server, or a python3 with the package xllamacpp, which is that server in a process of
Python.  MODEL is models/demo.  The GGUF has the demo model's tokenizer, layers, widths and experts, and random weights
in Q4_0: what is drawn is nonsense, but costs what a model of this size costs.  It attends as Llama does, having no
cache rows to compress, so what the models themselves cost is alike, not equal; /health asks for none of it.

One thread computes in each server, 16 requests run at once, every prompt is another one.  Each round measures both, one
after the other; a row has the medians of all rounds.  Processor time is the server's own, all its threads, so it does not
count what the client or the machine's other work take; the rest does.
"""
import csv
import http.client
import json
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import time

USERS, CONTEXT = 16, 512
HOST = """
import sys, time, xllamacpp as x
p = x.CommonParams()
p.model.path, p.hostnames = sys.argv[1], ["127.0.0.1"]
p.port, p.n_parallel, p.n_ctx = map(int, sys.argv[2:5])
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.fit_params = p.warmup = False
server = x.Server(p)
time.sleep(1e6)
"""


# ---- a model to compare with ----

def make(path, model):
    import gguf
    import numpy as np
    folder = pathlib.Path(model)
    c = json.loads((folder / "config.json").read_text())
    t = json.loads((folder / "tokenizer.json").read_text())
    layers, width, heads, head = (c[k] for k in ("num_hidden_layers", "hidden_size", "num_attention_heads", "head_dim"))
    experts, used, inner, vocab = (c[k] for k in ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                                                  "vocab_size"))
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(layers)
    w.add_context_length(4096)
    w.add_embedding_length(width)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    w.add_expert_count(experts)
    w.add_expert_used_count(used)
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(vocab)
    ids = {**t["model"]["vocab"], **{a["content"]: a["id"] for a in t["added_tokens"]}}
    tokens = {i: text for text, i in ids.items()}
    special = {a["id"] for a in t["added_tokens"]}
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("deepseek-v3")
    w.add_token_list([tokens.get(i, f"<unused{i}>") for i in range(vocab)])
    w.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL if i in tokens
                       else gguf.TokenType.UNUSED for i in range(vocab)])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]])
    w.add_bos_token_id(c["bos_token_id"])
    w.add_eos_token_id(c["eos_token_id"])
    w.add_add_bos_token(True)
    rng = np.random.default_rng(1)

    def add(name, *shape):
        x = (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q4_0
        w.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)

    add("token_embd.weight", vocab, width)
    add("output.weight", vocab, width)
    w.add_tensor("output_norm.weight", np.ones(width, np.float32))
    rows = c["num_key_value_heads"] * head
    for i in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{i}.{norm}.weight", np.ones(width, np.float32))
        add(f"blk.{i}.attn_q.weight", heads * head, width)
        add(f"blk.{i}.attn_k.weight", rows, width)
        add(f"blk.{i}.attn_v.weight", rows, width)
        add(f"blk.{i}.attn_output.weight", width, heads * head)
        w.add_tensor(f"blk.{i}.ffn_gate_inp.weight", rng.standard_normal((experts, width)).astype(np.float32))
        add(f"blk.{i}.ffn_gate_exps.weight", experts, inner, width)
        add(f"blk.{i}.ffn_up_exps.weight", experts, inner, width)
        add(f"blk.{i}.ffn_down_exps.weight", experts, width, inner)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- servers ----

class Server:
    def __init__(self, name, command, port):
        self.name, self.port, self.asked = name, port, 0
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not self.is_ready():
            assert self.process.poll() is None and time.monotonic() < deadline, f"{name} does not start"
            time.sleep(0.1)

    def is_ready(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except OSError:
            return False

    def cpu(self):
        """Seconds of processor time so far, all threads."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def health(self):
        return b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def completion(self, n_new):
        self.asked += 1
        body = json.dumps({"prompt": f"{self.asked} times: What is the capital of France?", "max_tokens": n_new,
                           "temperature": 0, "ignore_eos": True}).encode()
        return (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)) + body


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(llama, gguf, hadal, model):
    a, b = free_port(), free_port()
    room = [str(USERS), str(USERS * CONTEXT)]
    if "python" in pathlib.Path(llama).name:
        theirs = [llama, "-c", HOST, gguf, str(b), *room]
    else:
        theirs = [llama, "-m", gguf, "--host", "127.0.0.1", "--port", str(b), "-np", room[0], "-c", room[1], "-t", "1",
                  "-tb", "1", "--no-warmup"]
    ours = [hadal, "serve", model, "--port", str(a), "--threads", "1", "--users", room[0], "--context", str(CONTEXT),
            "--quiet"]
    return Server("hadal", ours, a), Server("llama.cpp", theirs, b)


# ---- a client that costs little ----

def whole(data):
    """Whether an answer has arrived; its status must be 200."""
    head, gap, body = data.partition(b"\r\n\r\n")
    if not gap:
        return False
    assert head.startswith(b"HTTP/1.1 200"), data
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return len(body) >= int(length.split(b":")[1])


class Connection:
    """Kept as long as the server keeps it; llama.cpp's ends each after a hundred requests."""

    def __init__(self, server, waiting):
        self.server, self.waiting, self.socket = server, waiting, None

    def ask(self, request):
        self.begin, self.data = time.perf_counter(), b""
        if not self.socket:
            self.socket = socket.create_connection(("127.0.0.1", self.server.port), 60)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.waiting.register(self.socket, selectors.EVENT_READ, self)
        self.socket.sendall(request)

    def take(self):
        """Seconds that the answer took, once it is whole."""
        piece = self.socket.recv(65536)
        assert piece, f"{self.server.name} closed a connection in an answer"
        self.data += piece
        if not whole(self.data):
            return None
        seconds = time.perf_counter() - self.begin
        if b"\r\nconnection: close\r\n" in self.data.lower():
            self.close()
        return seconds

    def close(self):
        if self.socket:
            self.waiting.unregister(self.socket)
            self.socket.close()
        self.socket = None


def drive(server, request, clients, total):
    """Sends `total` requests over `clients` connections.  Returns seconds in all, and the median of one."""
    waiting, times, sent = selectors.DefaultSelector(), [], clients
    connections = [Connection(server, waiting) for _ in range(clients)]
    begin = time.perf_counter()
    for c in connections:
        c.ask(request())
    while len(times) < total:
        for key, _ in waiting.select(60):
            seconds = key.data.take()
            if seconds is None:
                continue
            times.append(seconds)
            if sent < total:
                sent += 1
                key.data.ask(request())
    seconds = time.perf_counter() - begin
    for c in connections:
        c.close()
    return seconds, statistics.median(times)


# ---- what is measured ----

CASES = [("health", 0, 1, 10000), ("health", 0, 16, 20000), ("completion", 1, 1, 60), ("completion", 8, 1, 40),
         ("completion", 8, 16, 160)]


def measure(servers, rounds):
    seen = {}
    for i in range(-1, rounds):  # the first warms both
        for what, n_new, clients, total in CASES:
            for server in servers if i % 2 else servers[::-1]:
                request = server.health if what == "health" else lambda: server.completion(n_new)
                before = server.cpu()
                seconds, median = drive(server, request, clients, total)
                if i >= 0:
                    seen.setdefault((what, n_new, clients, server.name), []).append(
                        (total / seconds, median * 1e3, (server.cpu() - before) / total * 1e6))
    return seen


def run(llama, gguf, hadal, model, rounds="5", path=None):
    servers = start(llama, gguf, hadal, model)
    try:
        seen = measure(servers, int(rounds))
    finally:
        for server in servers:
            server.process.kill()
    rows = [["request", "new tokens", "clients", "server", "requests/s", "median ms", "processor us/request"]]
    rows += [[*key, *(f"{statistics.median(x):.4g}" for x in zip(*values))] for key, values in seen.items()]
    for row in rows:
        print(*(f"{x!s:>14}" for x in row))
    if path:
        with open(path, "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    if sys.argv[1:2] not in (["make"], ["run"]):
        sys.exit(__doc__)
    {"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])
