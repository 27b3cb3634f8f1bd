#ifndef HD_TOKENIZER_CHAT_TOKENS_H
#define HD_TOKENIZER_CHAT_TOKENS_H

/* Spellings of the control tokens that prompts and answers use.  The bars are U+FF5C and the
 * low lines U+2581.  HD_TOKEN_DSML has no angle brackets: those are ordinary text. */
#define HD_TOKEN_BOS             "<｜begin▁of▁sentence｜>"
#define HD_TOKEN_EOS             "<｜end▁of▁sentence｜>"
#define HD_TOKEN_SYSTEM          "<｜System｜>" /* V4.1 only, as HD_TOKEN_IMAGE */
#define HD_TOKEN_IMAGE           "<｜image｜>"
#define HD_TOKEN_USER            "<｜User｜>"
#define HD_TOKEN_ASSISTANT       "<｜Assistant｜>"
#define HD_TOKEN_LATEST_REMINDER "<｜latest_reminder｜>"
#define HD_TOKEN_THINK           "<think>"
#define HD_TOKEN_THINK_END       "</think>"
#define HD_TOKEN_DSML            "｜DSML｜"

#endif
