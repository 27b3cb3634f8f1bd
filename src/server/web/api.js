// The server's API, as far as the page needs it.  Addresses are relative, so that the page also
// works behind a proxy that adds a folder in front.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // of HTTP; 0 when there was no answer, or it came within a stream
  }
}

const headers = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

async function send(path, key, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers(key), ...options.headers } });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new ApiError(0, "The server does not answer. It may be busy starting, or gone.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error?.message ?? `The server says ${response.status} ${response.statusText}`);
}

export async function get(path, key) {
  return (await send(path, key)).json();
}

// The `data` of each server-sent event of a response.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (held + value).split(/\r\n|\n|\r(?!$)/);
      held = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the reader of these events left before their end
  }
}

// The chunks of one streamed chat completion; throws an ApiError when the server reports a
// failure or the stream ends before its end mark.
export async function* chat(request, key, signal) {
  const response = await send("v1/chat/completions", key, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(0, chunk.error.message ?? "The server stopped with an error.");
    yield chunk;
  }
  throw new ApiError(0, "The connection ended before the answer did.");
}
