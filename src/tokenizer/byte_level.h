#ifndef HD_TOKENIZER_BYTE_LEVEL_H
#define HD_TOKENIZER_BYTE_LEVEL_H

#include "base/status.h"

/* The spelling of bytes in tokenizer files: each byte is one printable character.  Bytes that
 * are printable in Latin-1 stand for themselves, the other 68 in order for U+0100 and up
 * (a space is U+0120). */

HD_BEGIN_C

/* Turns a spelling into bytes; out has room for `bytes`.
 * text     any bytes
 * returns  how many bytes it spells; -1 when some character stands for no byte */
int64_t hd_byte_level_decode(char *out, const char *text, size_t bytes);

HD_END_C
#endif
