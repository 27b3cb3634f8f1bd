#ifndef HD_TOKENIZER_UNICODE_CLASS_H
#define HD_TOKENIZER_UNICODE_CLASS_H

#include "base/status.h"

/* Code point classes as the splitting rules see them (Unicode 16). */

HD_BEGIN_C

#define HD_CLASS_LETTER  0x01u /* general categories L*, M*, N*, P*, S* */
#define HD_CLASS_MARK    0x02u
#define HD_CLASS_NUMBER  0x04u
#define HD_CLASS_PUNCT   0x08u
#define HD_CLASS_SYMBOL  0x10u
#define HD_CLASS_SPACE   0x20u /* what a regular expression calls \s, line ends too */
#define HD_CLASS_NEWLINE 0x40u /* CR and LF */
#define HD_CLASS_CJK     0x80u /* U+4E00-9FA5 and U+3040-30FF, beside their category */

/* Two levels, read through hd_unicode_class: the bit number of a class from 1, 0 for none,
 * in four bits each; code points of one block share a row. */
#define HD_UNICODE_END   0x32400u
#define HD_UNICODE_BLOCK 128u
extern const uint8_t hd_unicode_ascii[128]; /* HD_CLASS_* bits */
extern const uint8_t hd_unicode_block[HD_UNICODE_END / HD_UNICODE_BLOCK];
extern const uint8_t hd_unicode_nibble[];

/* HD_CLASS_* bits of a code point up to U+10FFFF. */
static inline unsigned hd_unicode_class(uint32_t c)
{
    if (c < 128) return hd_unicode_ascii[c];
    if (c >= HD_UNICODE_END) return c >= 0xE0100 && c <= 0xE01EF ? HD_CLASS_MARK : 0;
    uint32_t const at =
        hd_unicode_block[c / HD_UNICODE_BLOCK] * HD_UNICODE_BLOCK + c % HD_UNICODE_BLOCK;
    unsigned const pair = hd_unicode_nibble[at / 2];
    unsigned const bits = (1u << (at % 2 ? pair >> 4 : pair & 15)) >> 1;
    bool const     cjk = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
    return cjk ? bits | HD_CLASS_CJK : bits;
}

HD_END_C
#endif
