#!/usr/bin/env python3
"""Many clients at once: short and long answers, some that leave in the middle, some that send nonsense.
Nothing may be lost, and memory may not grow; times are printed.  Not part of scripts/test.sh.

usage: load_server.py [HADAL [MODEL [REQUESTS [CLIENTS]]]]     defaults: build/hadal models/demo 2000 200"""
import asyncio
import json
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
from served import PLAIN, Server
arguments = dict(enumerate(sys.argv[1:]))
HADAL = str(pathlib.Path(arguments.get(0, ROOT / "build/hadal")).resolve())
MODEL = str(pathlib.Path(arguments.get(1, ROOT / "models/demo")).resolve())
REQUESTS, CLIENTS = int(arguments.get(2, 2000)), int(arguments.get(3, 200))
CONTEXT = 32768

NONSENSE = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 50 + b"\n", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"a\": [[[", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"]


def make_request(body):
    data = json.dumps(body).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)


def percentiles(values):
    values = sorted(values)
    pick = [values[min(len(values) - 1, int(len(values) * p))] for p in (0.5, 0.99)] if values else [0, 0]
    return f"p50 {pick[0] * 1e3:.1f} ms, p99 {pick[1] * 1e3:.1f} ms, of {len(values)}"


class Load:
    def __init__(self, server):
        self.server = server
        self.first, self.between = [], []
        self.counts = dict.fromkeys(("whole", "left", "nonsense", "full", "lost"), 0)
        self.rng = random.Random(1)

    async def dial(self):
        return await asyncio.open_connection(self.server.host, self.server.port)

    async def nonsense(self):
        reader, writer = await self.dial()
        writer.write(self.rng.choice(NONSENSE))
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 600)
        self.counts["nonsense" if answer.startswith(b"HTTP/1.1 4") else "lost"] += 1
        writer.close()

    async def stream(self, leaves):
        n = self.rng.choice((4, 16, 60, 200))
        body = {**PLAIN, "messages": [{"role": "user", "content": f"Count to {self.rng.randint(3, 40)}. " +
                                       "word " * self.rng.choice((1, 10, 100, 600))}],
                "stream": True, "max_tokens": n, "ignore_eos": True}
        reader, writer = await self.dial()
        start = last = time.monotonic()
        writer.write(make_request(body))
        seen, data = 0, b""
        while piece := await asyncio.wait_for(reader.read(65536), 600):
            now = time.monotonic()
            data += piece
            if b'"content":"' not in piece.replace(b'"content":""', b""):
                continue
            (self.between if seen else self.first).append(now - (last if seen else start))
            seen, last = seen + 1, now
            if leaves and seen >= 2:
                break
        writer.close()
        if leaves and seen >= 2:
            self.counts["left"] += 1
        elif data.startswith(b"HTTP/1.1 429"):
            self.counts["full"] += 1
        else:
            self.counts["whole" if b"data: [DONE]" in data else "lost"] += 1

    async def client(self, work):
        while work:
            kind = work.pop()
            try:
                await (self.nonsense() if kind == "nonsense" else self.stream(kind == "leaves"))
            except (OSError, asyncio.TimeoutError) as e:
                self.counts["lost"] += 1
                print("lost:", repr(e))

    async def run(self):
        kinds = ["nonsense"] * (REQUESTS // 10) + ["leaves"] * (REQUESTS * 3 // 10)
        kinds += ["whole"] * (REQUESTS - len(kinds))
        self.rng.shuffle(kinds)
        await asyncio.gather(*(self.client(kinds) for _ in range(CLIENTS)))

    async def fairness(self):
        """The gaps of a short stream, alone and while a prompt of nearly the whole context is read."""
        gaps = {}

        async def short(name):
            body = {**PLAIN, "messages": [{"role": "user", "content": "Tell me a story."}], "stream": True,
                    "max_tokens": 400, "ignore_eos": True}
            reader, writer = await self.dial()
            writer.write(make_request(body))
            last, gaps[name] = None, []
            while piece := await reader.read(65536):
                now = time.monotonic()
                if b'"content":"' in piece and last:
                    gaps[name].append(now - last)
                last = now
            writer.close()

        await short("alone")
        text = "word " * (CONTEXT - 3000)
        while True:
            n = self.server.post("/tokenize", {"messages": [{"role": "user", "content": text}]})["count"]
            if n <= CONTEXT - 100:
                break
            text = text[:len(text) * (CONTEXT - 200) // n]
        reader, writer = await self.dial()
        start = time.monotonic()
        writer.write(make_request({**PLAIN, "messages": [{"role": "user", "content": text}], "max_tokens": 1}))
        await asyncio.sleep(0.2)
        await short("beside a long prompt")
        still = not reader.at_eof() and len(reader._buffer) == 0
        await reader.read()
        writer.close()
        for name, values in gaps.items():
            print(f"between chunks, {name}: {percentiles(values)}, at most {max(values) * 1e3:.1f} ms")
        print(f"the long prompt: {n} tokens in {time.monotonic() - start:.1f} s; "
              f"{'still read when the short stream ended' if still else 'read before the short stream ended'}")


def rss(server):
    with open(f"/proc/{server.process.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096 / (1 << 20)


def main():
    server = Server(HADAL, MODEL, "--users", "32", "--queue", "1024", "--context", str(CONTEXT), "--cache-ram", "64")
    load = Load(server)
    start, sizes = time.monotonic(), [rss(server)]
    for _ in range(2):
        asyncio.run(load.run())
        sizes.append(rss(server))
    print(f"{2 * REQUESTS} requests by {CLIENTS} clients in {time.monotonic() - start:.1f} s: {load.counts}")
    print(f"to the first token: {percentiles(load.first)}; between chunks: {percentiles(load.between)}")
    print("resident MiB at the start, after each half: " + ", ".join(f"{s:.1f}" for s in sizes))
    asyncio.run(load.fairness())
    deadline = time.monotonic() + 30
    while server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") > 0:
        assert time.monotonic() < deadline, "requests are left behind"
        time.sleep(0.1)
    assert server.metric("hadal_connections") == 1
    server.stop()
    assert load.counts["lost"] == 0 and sum(load.counts.values()) == 2 * REQUESTS, load.counts
    print("nothing lost, nothing left behind")


main()
