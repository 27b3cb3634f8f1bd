#!/usr/bin/env python3
"""What the server does with connections, faulty requests, keys, origins, options and signals.

usage: test_server_http.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from served import FRANCE, PARIS, PLAIN, Server, read_all
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-http-"))
SERVER = Server(HADAL, MODEL)
# An answer that goes on and on: nothing ends it.
ENDLESS = {"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 1, "seed": 1,
           "thinking": {"type": "disabled"}, "ignore_eos": True, "max_tokens": 3500}


def write(name, text):
    path = SCRATCH / name
    path.write_text(text)
    return str(path)


def post(body, *fields, path="/v1/chat/completions"):
    """The bytes of a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", f"Host: {SERVER.host}", "Content-Type: application/json",
            f"Content-Length: {len(data)}", *fields]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- requests that are none ----------------------------------------------------------

def test_faulty_requests():
    get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    for data, status in (
            (b"GET /health HTTP/1.1\r\n\r\n", 400),                                   # no Host
            (get + b"Host: localhost\r\n\r\n", 400),
            (get + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
            (get + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (get + b"Transfer-Encoding: gzip\r\n\r\n", 501),
            (get + b"X: 1\r\n folded\r\n\r\n", 400),
            (get + b"X: " + b"y" * 100000 + b"\r\n\r\n", 431),
            (get + b"X: y\r\n" * 101 + b"\r\n", 431),
            (get.replace(b"\r\n", b"\n") + b"\n", 400),                               # bare LF
            (b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\n", 400),       # TLS to a plain port
            (get + b"Content-Length: 99999999999\r\n\r\n", 413),
            (get + b"Expect: nothing\r\n\r\n", 417)):
        answer = SERVER.send(data)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (data[:60], answer[:80])
        error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
        assert error["type"] == "invalid_request_error" or status in (501, 505), error
        assert b"Connection: close" in answer
    assert SERVER.get("/health") == {"status": "ok"}


def test_unknown_paths_and_methods():
    assert SERVER.refused("/v1/nothing", {}, 404)["code"] == "not_found"
    assert SERVER.refused("/v1/../etc/passwd", {}, 404)["code"] == "not_found"
    assert SERVER.refused("/v1/chat/completions", None, 405, "GET")["code"] == "method_not_allowed"
    assert SERVER.refused("/health", {}, 405)["code"] == "method_not_allowed"
    assert SERVER.refused("/health", {}, 405, "DELETE")["code"] == "method_not_allowed"
    assert SERVER.refused("/health", {}, 405, "BREW")["code"] == "method_not_allowed"


def test_bodies_are_json_by_name():
    body = {"messages": [{"role": "user", "content": FRANCE}], **PLAIN}
    for type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        SERVER.refused("/v1/chat/completions", body, 415, **{"Content-Type": type})
    status, _, _ = SERVER.ask("POST", "/v1/chat/completions", body,
                              {"Content-Type": "Application/JSON; charset=utf-8"})
    assert status == 200


def test_both_prefixes():
    body = {"messages": [{"role": "user", "content": FRANCE}], **PLAIN}
    for path in ("/chat/completions", "/v1/chat/completions", "/v1/chat/completions?x=y"):
        assert SERVER.post(path, body)["choices"][0]["message"]["content"] == PARIS
    assert SERVER.get("/models") == SERVER.get("/v1/models")


def test_chunked_body():
    body = json.dumps({"messages": [{"role": "user", "content": FRANCE}], **PLAIN}).encode()
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: {SERVER.host}\r\nConnection: close\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
    with SERVER.dial() as s:
        s.sendall(head)
        for i in range(0, len(body), 7):
            s.sendall(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]))
        s.sendall(b"0\r\n\r\n")
        answer = read_all(s)
    assert PARIS.encode() in answer


def test_pipelined_requests():
    body = {"messages": [{"role": "user", "content": FRANCE}], **PLAIN}
    with SERVER.dial() as s:
        s.sendall(post(body) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" +
                  post({**body, "stream": True}, "Connection: close"))
        answer = read_all(s)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.index(PARIS.encode()) < answer.index(b'{"status":"ok"}') < answer.index(b"[DONE]")


def test_request_ids():
    ids = set()
    for _ in range(3):
        _, fields, _ = SERVER.ask("GET", "/health")
        ids.add(fields["x-request-id"])
        assert fields["request-id"] == "req_" + fields["x-request-id"]
    assert len(ids) == 3


def test_curl():
    body = json.dumps({"messages": [{"role": "user", "content": FRANCE}], **PLAIN, "stream": True})
    done = subprocess.run(["curl", "-sSN", "--fail", SERVER.url + "/v1/chat/completions", "-d", body,
                           "-H", "Content-Type: application/json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("data: [DONE]\n\n"), done
    done = subprocess.run(["curl", "-sSI", "--fail", SERVER.url + "/health"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0 and "Content-Length: 15" in done.stdout, done


# ---- clients that leave --------------------------------------------------------------

def test_a_client_that_leaves_frees_its_place():
    for stream in (True, False):
        with SERVER.dial() as s:
            s.sendall(post({**ENDLESS, "stream": stream}))
            wait_for(lambda: SERVER.metric("vllm:num_requests_running") == 1)
        wait_for(lambda: SERVER.metric("vllm:num_requests_running") == 0, 5)
        assert SERVER.logged(status=499)["path"] == "/chat/completions"


def test_a_client_that_leaves_while_it_waits():
    held = [SERVER.dial() for _ in range(10)]
    for s in held:
        s.sendall(post({**ENDLESS, "stream": True}))
    wait_for(lambda: SERVER.metric("vllm:num_requests_waiting") == 2)
    for s in held:
        s.close()
    wait_for(lambda: SERVER.metric("vllm:num_requests_waiting") + SERVER.metric("vllm:num_requests_running") == 0)


# ---- the queue -----------------------------------------------------------------------

def test_a_full_queue():
    server = Server(HADAL, MODEL, "--users", "1", "--queue", "1")
    held = []
    for n in range(2):
        held.append(server.dial())
        held[-1].sendall(post({**ENDLESS, "stream": True}))
        wait_for(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting")
                 == n + 1)
    status, fields, data = server.ask("POST", "/v1/chat/completions", ENDLESS)
    assert status == 429 and int(fields["Retry-After"]) >= 1, (status, data)
    assert json.loads(data)["error"]["code"] == "queue_full"
    # Two answers, one of which finds no place: the other is not drawn for nobody.
    status, _, _ = server.ask("POST", "/v1/chat/completions", {**ENDLESS, "n": 2})
    assert status == 429
    for s in held:
        s.close()
    wait_for(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0)
    assert server.chat()["choices"][0]["message"]["content"] == PARIS
    server.stop()


# ---- keys and origins ----------------------------------------------------------------

def test_keys():
    keys = write("keys", "# two of us\nalpha\n\n  \nbeta-2 \r\n")
    server = Server(HADAL, MODEL, "--keys", keys)
    body = {"messages": [{"role": "user", "content": FRANCE}], **PLAIN}
    for fields in ({}, {"Authorization": "Bearer gamma"}, {"Authorization": "alpha"}, {"x-api-key": "alph"},
                   {"x-api-key": "alphaa"}, {"x-api-key": ""}, {"Authorization": "Basic alpha"},
                   {"x-api-key": "# two of us"}):
        error = server.refused("/v1/chat/completions", body, 401, **fields)
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    for fields in ({"Authorization": "Bearer alpha"}, {"authorization": "bearer  beta-2"}, {"x-api-key": "alpha"}):
        assert server.post("/v1/chat/completions", body, **fields)
    assert server.get("/health") and server.get("/ready")
    for path in ("/v1/models", "/metrics", "/props", "/tokenizer_info"):
        server.refused(path, None, 401, "GET")
    server.stop()


def test_bad_key_files():
    for text, says in (("", "holds no key"), ("# none\n", "holds no key"), ("a b\n", "line 1 is no key"),
                       ("a\n\tb\n", "line 2 is no key")):
        done = subprocess.run([HADAL, "serve", MODEL, "--port", "0", "--quiet", "--keys", write("bad", text)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and says in done.stderr, done


def test_origins():
    server = Server(HADAL, MODEL, "--cors", "https://chat.example", "--cors", "http://localhost:3000")
    status, fields, _ = server.ask("GET", "/health", headers={"Origin": "https://chat.example"})
    assert status == 200 and fields["Access-Control-Allow-Origin"] == "https://chat.example"
    status, fields, data = server.ask("OPTIONS", "/v1/chat/completions",
                                      headers={"Origin": "http://localhost:3000",
                                               "Access-Control-Request-Method": "POST"})
    assert (status, data) == (204, b"") and "POST" in fields["Access-Control-Allow-Methods"]
    assert "Authorization" in fields["Access-Control-Allow-Headers"]
    status, fields, _ = server.ask("GET", "/health", headers={"Origin": server.url})  # its own page
    assert status == 200 and "Access-Control-Allow-Origin" not in fields
    for origin in ("https://evil.example", "null", "https://chat.example.evil"):
        assert server.refused("/v1/chat/completions", {}, 403, Origin=origin)["code"] == "origin_not_allowed"
    server.stop()


def test_names_of_other_machines():
    """A page that rebinds its name to this machine comes with that name."""
    assert SERVER.refused("/health", None, 403, "GET", Host="evil.example")["code"] == "host_not_allowed"
    for name in ("localhost", "localhost:80", "127.0.0.1", "[::1]:80"):
        assert SERVER.ask("GET", "/health", headers={"Host": name})[0] == 200


# ---- TLS -----------------------------------------------------------------------------

def make_certificate():
    certificate, key = str(SCRATCH / "cert.pem"), str(SCRATCH / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-days", "2",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return certificate, key


def test_tls():
    certificate, key = make_certificate()
    server = Server(HADAL, MODEL, "--tls-cert", certificate, "--tls-key", key)
    assert server.url.startswith("https://")
    context = ssl.create_default_context(cafile=certificate)
    with context.wrap_socket(server.dial(), server_hostname="127.0.0.1") as s:
        assert s.version() in ("TLSv1.2", "TLSv1.3")
        s.sendall(post({"messages": [{"role": "user", "content": FRANCE}], **PLAIN}, "Connection: close"))
        assert PARIS.encode() in read_all(s)
    with context.wrap_socket(server.dial(), server_hostname="127.0.0.1") as s:  # leaves in the middle
        s.sendall(post({**ENDLESS, "stream": True}))
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    assert server.logged(status=499)
    assert b"200" not in server.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert subprocess.run(["curl", "-sS", "--fail", "--cacert", certificate, server.url + "/health"],
                          capture_output=True, timeout=60).returncode == 0
    server.stop()


def test_bad_tls_files():
    certificate, key = make_certificate()
    for args, says in ((["--tls-cert", certificate], "certificate and its key, both"),
                       (["--tls-cert", "/nonexistent", "--tls-key", key], "/nonexistent"),
                       (["--tls-cert", key, "--tls-key", key], "key.pem"),
                       (["--tls-cert", certificate, "--tls-key", certificate], "cert.pem")):
        done = subprocess.run([HADAL, "serve", MODEL, "--port", "0", "--quiet", *args], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1, done


# ---- options -------------------------------------------------------------------------

def test_elsewhere_only_with_keys():
    done = subprocess.run([HADAL, "serve", MODEL, "--port", "0", "--quiet", "--host", "0.0.0.0"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "anyone could ask" in done.stderr, done
    Server(HADAL, MODEL, "--host", "0.0.0.0", "--no-key").stop()
    Server(HADAL, MODEL, "--host", "0.0.0.0", "--keys", write("one", "k\n")).stop()


def test_a_port_that_is_taken():
    done = subprocess.run([HADAL, "serve", MODEL, "--port", str(SERVER.port), "--quiet"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1, done
    assert re.fullmatch(rf"hadal: cannot listen at 127.0.0.1 port {SERVER.port}: .*\n", done.stderr), done


def test_config_file():
    config = write("config", "# one of many\nmodel-name = from-file\nusers=3\n\n cors = https://a.example\ntrust\n")
    server = Server(HADAL, MODEL, "--config", config, "--users", "5")
    assert server.get("/v1/models")["data"][0]["id"] == "from-file"
    assert server.get("/props")["users"] == 5  # the command line counts
    assert server.ask("GET", "/health", headers={"Origin": "https://a.example"})[0] == 200
    server.stop()
    for text, says, status in (("users = x\n", "--users 'x'", 2), ("frobnicate = 1\n", "unknown option --frobnicate", 2),
                               ("--users = 3\n", "line 1", 1), ("trust = yes\n", "takes no value", 2),
                               ("config = other\n", "line 1", 1)):
        done = subprocess.run([HADAL, "serve", MODEL, f"--config={write('bad', text)}"], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == status and says in done.stderr, (text, done)
    done = subprocess.run([HADAL, "serve", MODEL, "--config", "/nonexistent"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "/nonexistent" in done.stderr


def test_what_was_chosen_is_printed():
    server = Server(HADAL, MODEL, "--users", "2", "--context", "1024", "--kv", "fp8", form="text")
    lines = "\n".join(server.stop())
    for text in ("context 1024, chunk 128, 2 sessions", "KV fp8", "fits", "kernels ref", "demo: 2 users at once",
                 "no key wanted"):
        assert text in lines, (text, lines)


def test_log_lines():
    server = Server(HADAL, MODEL, form="text")
    server.chat()
    server.refused("/v1/chat/completions", {"messages": 7})
    lines = server.stop()
    good, bad = [line for line in lines if "path=/chat/completions" in line]
    assert re.search(r"^time=\S+Z event=request id=[0-9a-f]{32} peer=127\.0\.0\.1:\d+ path=/chat/completions "
                     r"status=200 stream=no prompt=\d+ cached=0 new=\d+ reasoning=0 finish=stop ", good), good
    assert "status=400" in bad and 'error="messages: found int' in bad, bad
    assert FRANCE not in "\n".join(lines) and PARIS not in "\n".join(lines)


# ---- signals -------------------------------------------------------------------------

def test_answers_in_hand_are_finished():
    server = Server(HADAL, MODEL, "--grace", "300")  # a sanitizer is slow
    with server.dial() as s:
        s.sendall(post({**ENDLESS, "stream": True, "max_tokens": 300}))
        head = s.recv(100)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: any('"stopping"' in line for line in server.lines))
        try:
            server.dial().close()
            raise AssertionError("a connection is taken while stopping")
        except ConnectionRefusedError:
            pass
        assert (head + read_all(s)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    server.stop()


def test_a_second_signal_ends_them():
    server = Server(HADAL, MODEL)
    with server.dial() as s:
        s.sendall(post({**ENDLESS, "stream": True}))
        s.recv(100)
        for number in (signal.SIGINT, signal.SIGTERM):
            server.process.send_signal(number)
            time.sleep(0.2)
        data = read_all(s)
    assert b'"code":"shutting_down"' in data and b"[DONE]" not in data, data[-300:]
    server.stop(signal=0)


def test_grace_ends():
    server = Server(HADAL, MODEL, "--grace", "1")
    with server.dial() as s, server.dial() as whole:
        s.sendall(post({**ENDLESS, "stream": True}))
        whole.sendall(post({**ENDLESS, "stream": False}))
        s.recv(100)
        start = time.monotonic()
        server.stop()
        assert time.monotonic() - start < 20
        assert b"shutting_down" in read_all(s)
        assert read_all(whole).startswith(b"HTTP/1.1 503 ")


def test_the_first_server_still_lives():
    assert SERVER.chat()["choices"][0]["message"]["content"] == PARIS
    SERVER.stop()


sys.exit(suite.run(globals(), SCRATCH))
