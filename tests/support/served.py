"""A server under test, and ways to talk to it that clients' libraries do not have."""
import http.client
import json
import queue
import re
import socket
import subprocess
import threading
import time

FRANCE = "What is the capital of France?"
PARIS = "The capital of France is Paris."
# Quick, and the same each time.
PLAIN = {"temperature": 0, "thinking": {"type": "disabled"}}
# What the demo model was trained to call.
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}},
                       "required": ["location"]}}},
    {"type": "function", "function": {
        "name": "calculate", "description": "Multiply two numbers",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                       "required": ["a", "b"]}}}]


def call(name, arguments):
    """What these tools answer."""
    given = json.loads(arguments)
    if name == "calculate":
        return str(given["a"] * given["b"])
    assert name == "get_weather", name
    return json.dumps({"temperature": len(given["location"]), "condition": "sunny"})


class Server:
    """`hadal serve` with these options, until stop()."""

    def __init__(self, hadal, model, *options, form="json"):
        self.process = subprocess.Popen(
            [hadal, "serve", model, "--port", "0", "--log", form, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.log = [], queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        deadline = time.monotonic() + 120
        while not (found := [m for m in map(re.compile(r"hadal: listening at (\w+)://(.*):(\d+)").fullmatch,
                                            self.lines) if m]):
            assert self.process.poll() is None and time.monotonic() < deadline, self.lines
            time.sleep(0.02)
        self.scheme, self.host, self.port = found[0][1], found[0][2], int(found[0][3])
        self.url = f"{self.scheme}://{self.host}:{self.port}"

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("{"):
                self.log.put(json.loads(line))

    def logged(self, **want):
        """The next line of the log about a request with these values."""
        while True:
            line = self.log.get(timeout=120)
            if line["event"] == "request" and all(line.get(k) == v for k, v in want.items()):
                return line

    def stop(self, signal=15, status=0):
        """Ends it as a service manager does, or with signal 0 waits for its end; the program must end
        well."""
        if signal and self.process.poll() is None:
            self.process.send_signal(signal)
        assert self.process.wait(60) == status, (self.process.returncode, self.lines[-20:])
        self.reader.join(10)
        assert self.process.stdout.read() == ""
        return self.lines

    # ---- requests ----

    def ask(self, method, path, body=None, headers={}):
        """Returns status, headers, the body as bytes."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        fields = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, {**fields, **headers})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data

    def get(self, path, **headers):
        status, _, data = self.ask("GET", path, headers=headers)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def post(self, path, body, **headers):
        status, _, data = self.ask("POST", path, body, headers)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def refused(self, path, body, status=400, method="POST", **headers):
        """The error object of a request that must be refused."""
        got, fields, data = self.ask(method, path, body, headers)
        assert got == status, (path, body, got, data)
        assert fields["Content-Type"] == "application/json"
        error = json.loads(data)["error"]
        assert set(error) == {"message", "type", "param", "code"} and error["message"], error
        return error

    def chat(self, text=FRANCE, **more):
        messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
        return self.post("/v1/chat/completions", {"messages": messages, **PLAIN, **more})

    def stream(self, body, path="/v1/chat/completions"):
        """All objects of a stream, which must end as one does."""
        status, fields, data = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, (status, data)
        assert fields["Content-Type"].startswith("text/event-stream")
        events = [e for e in data.decode().split("\n\n") if not e.startswith(":")]
        assert events[-2:] == ["data: [DONE]", ""], events[-3:]
        assert all(e.startswith("data: ") for e in events[:-1])
        return [json.loads(e[6:]) for e in events[:-2]]

    # ---- bytes ----

    def dial(self):
        return socket.create_connection((self.host, self.port), 300)

    def send(self, data):
        """Sends bytes as they are, and returns all that comes until the server closes."""
        with self.dial() as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server closed first; what it said can still be read
            return read_all(s)

    def metric(self, name):
        """The value of a metric without further labels."""
        _, _, data = self.ask("GET", "/metrics")
        found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", data.decode(), re.M)
        assert found, name
        return float(found[1])


def read_all(s):
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
    except OSError:
        pass  # reset
    return data


def join(chunks):
    """The message that the chunks of a stream add up to, as a whole answer has it."""
    message = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish = hadal = None
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"id": call["id"], "name": call["function"]["name"],
                                                  "arguments": ""})
                message["tool_calls"][call["index"]]["arguments"] += call["function"].get("arguments", "")
            finish = choice["finish_reason"] or finish
            hadal = choice.get("hadal", hadal)
    return message, finish, hadal


def flatten(answer):
    """The message of a whole answer, as join() gives a stream's."""
    choice = answer["choices"][0]
    message = choice["message"]
    calls = [{"id": c["id"], "name": c["function"]["name"], "arguments": c["function"]["arguments"]}
             for c in message.get("tool_calls", [])]
    return ({"content": message["content"] or "", "tool_calls": calls,
             "reasoning_content": message.get("reasoning_content", "")},
            choice["finish_reason"], choice["hadal"])
