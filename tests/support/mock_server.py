"""A server with the web page's files and a Chat Completions API that says what a test wants: no model
behind it, so that a browser can be shown any answer, at any pace."""
import http.server
import json
import pathlib
import threading
import time

WEB = pathlib.Path(__file__).resolve().parent.parent.parent / "src/server/web"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# As src/server/web_page.c sends it; tests/server/test_web.py compares the two.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def text(value, kind="content", pace=0.0, size=7):
    """Chunks of a text, `size` characters each, `pace` seconds apart."""
    for i in range(0, len(value), size):
        yield {kind: value[i:i + size]}
        time.sleep(pace)


def call(name, arguments, index=0):
    yield {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function",
                           "function": {"name": name, "arguments": ""}}]}
    for i in range(0, len(arguments), 5):
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[i:i + 5]}}]}


class MockServer:
    """`answer(request)` returns deltas of one answer, or raises ApiFailure; requests are kept."""

    def __init__(self, answer, key=None):
        self.answer, self.key, self.requests = answer, key, []
        self.left = threading.Event()  # set when a client leaves in the middle of an answer
        mock = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                try:
                    mock.get(self)
                except BrokenPipeError:
                    pass

            def do_POST(self):
                mock.post(self)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    @staticmethod
    def reply(to, status, kind, body):
        to.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), "Cache-Control": "no-cache",
                            "Content-Security-Policy": POLICY}.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body)

    def json(self, to, status, value):
        self.reply(to, status, "application/json", json.dumps(value).encode())

    def is_let_in(self, to):
        if self.key is None or to.headers.get("Authorization") == f"Bearer {self.key}":
            return True
        self.json(to, 401, {"error": {"message": "this server wants an API key", "code": "invalid_api_key"}})
        return False

    def get(self, to):
        path = to.path.lstrip("/")
        files = {"": "index.html", **{f"web/{f.name}": f.name for f in WEB.iterdir()}}
        if path in files:
            file = WEB / files[path]
            return self.reply(to, 200, TYPES[file.suffix], file.read_bytes())
        if not self.is_let_in(to):
            return None
        if path == "v1/models":
            return self.json(to, 200, {"object": "list", "data": [{"id": "mock-model", "object": "model"}]})
        if path == "props":
            return self.json(to, 200, {"model": "mock-model", "formats": "NVFP4 x 412, BF16 x 9", "activations": "nvfp4",
                                       "kv": "f32", "context": 4096, "memory": {"weights": 12352144, "kv": 39714816}})
        return self.json(to, 404, {"error": {"message": f"no route {to.path}"}})

    def post(self, to):
        request = json.loads(to.rfile.read(int(to.headers["Content-Length"])))
        if not self.is_let_in(to):
            return
        self.requests.append(request)
        try:
            deltas = self.answer(request)
        except ApiFailure as failure:
            self.json(to, failure.status, {"error": {"message": str(failure)}})
            return
        to.send_response(200)
        to.send_header("Content-Type", "text/event-stream")
        to.end_headers()
        try:
            self.stream(to, deltas)
        except OSError:
            self.left.set()

    def stream(self, to, deltas):
        def send(choices, **more):
            chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock-model",
                     "choices": choices, "usage": None, **more}
            to.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        def choice(delta, finish=None):
            return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]

        n = 0
        finish = "stop"
        more = {}
        to.wfile.write(b": waiting\r\n\r\n")
        send(choice({"role": "assistant", "content": ""}))
        try:
            for delta in deltas:
                if "finish" in delta:
                    finish, more = delta["finish"], delta.get("more", {})
                    continue
                n += 1
                if "tool_calls" in delta:
                    finish = "tool_calls"
                send(choice(delta))
        except ApiFailure as failure:
            to.wfile.write(f"data: {json.dumps({'error': {'message': str(failure)}})}\n\n".encode())
            return
        send(choice({}, finish), **more)
        send([], usage={"prompt_tokens": 21, "completion_tokens": n, "total_tokens": 21 + n,
                        "prompt_tokens_details": {"cached_tokens": 16},
                        "completion_tokens_details": {"reasoning_tokens": 0}})
        to.wfile.write(b"data: [DONE]\n\n")


class ApiFailure(Exception):
    """Before the first delta an HTTP status, later an error within the stream."""

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status
