// Asks for one answer and gathers its stream into a message.
import { ApiError, chat } from "./api.js";

export const emptyAnswer = () => ({ role: "assistant", content: "" });

function addCall(message, delta) {
  message.tool_calls ??= [];
  const call = message.tool_calls[delta.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
  if (delta.id) call.id = delta.id;
  call.function.name += delta.function?.name ?? "";
  call.function.arguments += delta.function?.arguments ?? "";
}

// Times are in seconds since the request was sent.
function addDelta(message, delta, now) {
  const { stats } = message;
  const isNews = delta.content || delta.reasoning_content || delta.tool_calls;
  if (isNews) stats.first_s ??= now;
  if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content;
  if ((delta.content || delta.tool_calls) && message.reasoning_content) stats.thought_s ??= now - stats.first_s;
  if (delta.content) message.content += delta.content;
  for (const call of delta.tool_calls ?? []) addCall(message, call);
}

function addUsage(stats, usage, now) {
  stats.tokens = usage.completion_tokens;
  stats.prompt = usage.prompt_tokens;
  stats.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  stats.reasoning = usage.completion_tokens_details?.reasoning_tokens ?? 0;
  stats.new_s = now - (stats.first_s ?? now);
}

function addChunk(message, chunk, now) {
  const choice = chunk.choices?.[0];
  if (choice?.delta) addDelta(message, choice.delta, now);
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  const hadal = chunk.hadal ?? choice?.hadal;
  if (hadal?.blank && hadal.blank !== "no") message.blank = hadal.blank;
  if (chunk.usage) addUsage(message.stats, chunk.usage, now);
}

// Fills `message` until the answer ends; onChange is called after every piece.  A failure is told
// in the message; stopping by `signal` keeps what came.  Returns the ApiError, or null.
export async function answer(message, request, key, signal, onChange) {
  const start = performance.now();
  message.stats = {};
  try {
    for await (const chunk of chat(request, key, signal)) {
      addChunk(message, chunk, (performance.now() - start) / 1000);
      onChange();
    }
    return null;
  } catch (cause) {
    if (signal.aborted) {
      message.is_stopped = true;
      return null;
    }
    const error = cause instanceof ApiError ? cause : new ApiError(0, `The answer cannot be read: ${cause.message}`);
    message.error = error.message;
    message.is_failed = true;
    return error;
  } finally {
    // Holes are calls that were announced out of order and never came.
    if (message.tool_calls) message.tool_calls = message.tool_calls.filter((c) => c?.function.name);
  }
}
