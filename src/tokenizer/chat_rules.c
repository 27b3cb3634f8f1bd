#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"

#define EFFORT_ABSOLUTE                                                                          \
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"                          \
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to "   \
    "resolve the root cause, rigorously stress-testing your logic against all potential paths, " \
    "edge cases, and adversarial scenarios.\n"                                                   \
    "Explicitly write out your entire deliberation process, documenting every intermediate "     \
    "step, considered alternative, and rejected hypothesis to ensure absolutely no assumption "  \
    "is left unchecked.\n\n"
#define EFFORT_BEYOND                                                                         \
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"      \
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: " \
    "exhaustively decompose the problem into its most fundamental components, trace every "   \
    "causal chain to its root, and resolve the underlying cause rather than any surface "     \
    "symptom.\n"                                                                              \
    "Do not stop reasoning until you have independently verified the solution from multiple " \
    "angles and are certain that no assumption remains unchecked and no error remains "       \
    "undiscovered.\n\n"
#define EFFORT_NUMBER(n)   \
    "Reasoning Effort: " n \
    " (range 1-100, the higher the value, the more thorough the reasoning)\n\n"

/* What GA calls high, the preview calls max; there low and high are both without a prefix, and
 * its encoder does not know the word low. */
static const hd_chat_rules ga = {
    .efforts = {"", "", EFFORT_ABSOLUTE, EFFORT_BEYOND},
    .calls = "tool_calls",
    .invoke = "invoke",
    .parameter = "parameter",
};
static const hd_chat_rules preview = {
    .efforts = {"", NULL, "", EFFORT_ABSOLUTE},
    .calls = "tool_calls",
    .invoke = "invoke",
    .parameter = "parameter",
};
static const hd_chat_rules ga_api = {
    .is_service = true,
    .efforts = {"", "", EFFORT_ABSOLUTE, EFFORT_BEYOND},
    .calls = "tool_calls",
    .invoke = "invoke",
    .parameter = "parameter",
    .closes_tight = true,
    .sorts_calls = true,
    .gathers = true,
    .image_text = "[Unsupported Image]",
    .json_only = "\n\nYou are a helpful assistant designed to output JSON.\n## Response Format:\n\n"
                 "Reply with JSON object ONLY.",
    .spelling = HD_SPELL_SERVICE,
};
static const hd_chat_rules v41_api = {
    .is_service = true,
    .efforts = {"", EFFORT_NUMBER("50"), EFFORT_NUMBER("75"), EFFORT_NUMBER("100")},
    .calls = " calls",
    .invoke = " invoke",
    .parameter = " parameter",
    .system_token = HD_TOKEN_SYSTEM,
    .image_token = HD_TOKEN_IMAGE,
    .spelling = HD_SPELL_ROUNDED,
};

const hd_chat_rules *hd_chat_rules_find(hd_dialect dialect)
{
    switch (dialect) {
    case HD_DIALECT_GA: return &ga;
    case HD_DIALECT_PREVIEW: return &preview;
    case HD_DIALECT_GA_API: return &ga_api;
    case HD_DIALECT_V41_API: return &v41_api;
    }
    return NULL;
}
