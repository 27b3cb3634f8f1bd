#include "tokenizer/pretoken.h"

#include "tokenizer/unicode_class.h"
#include "tokenizer/utf8.h"

/* The three stages run as one pass.  Stages 1 and 2 cut the text into sections: numbers,
 * runs of CJK, and the rest.  Stage 3 never sees over the end of its section, so for it a
 * character of another section is the end of the text. */

#define CLASS_WORD   (HD_CLASS_LETTER | HD_CLASS_MARK)
#define CLASS_SIGN   (HD_CLASS_PUNCT | HD_CLASS_SYMBOL)
#define CLASS_BEYOND 0x100u /* no character of this section */

typedef struct section {
    const unsigned char *text;
    size_t               bytes;
    unsigned             cjk; /* HD_CLASS_CJK when this is a run of CJK, else 0 */
} section;

typedef struct glyph {
    unsigned class;
    size_t end; /* offset behind the character */
} glyph;

static inline glyph read_glyph(const section *s, size_t at)
{
    if (at == s->bytes) return (glyph){CLASS_BEYOND, at};
    size_t         length;
    uint32_t const c = hd_utf8_decode(s->text + at, &length);
    return (glyph){hd_unicode_class(c), at + length};
}

static inline glyph read_in_section(const section *s, size_t at)
{
    glyph g = read_glyph(s, at);
    if ((g.class & HD_CLASS_CJK) != s->cjk || (g.class & HD_CLASS_NUMBER)) g.class = CLASS_BEYOND;
    return g;
}

/* The end of the run of characters of `classes` that starts at `at`, perhaps empty. */
static inline size_t run_end(const section *s, size_t at, unsigned classes)
{
    for (;;) {
        glyph const g = read_in_section(s, at);
        if (!(g.class & classes)) return at;
        at = g.end;
    }
}

static bool is_letter_ascii(unsigned char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

static size_t ascii_word_end(const section *s, size_t at)
{
    while (at < s->bytes && is_letter_ascii(s->text[at])) at++;
    return at;
}

static size_t number_end(const section *s, size_t at)
{
    for (int i = 0; i < 3; i++) {
        glyph const g = read_glyph(s, at);
        if (!(g.class & HD_CLASS_NUMBER)) break;
        at = g.end;
    }
    return at;
}

/* \s*[\r\n]+ up to the last line end of the run; else all of it but its last character when
 * a character of this section follows that could take it along; else all of it. */
static size_t space_end(const section *s, size_t at)
{
    size_t newline = 0, last = at, end = at;
    glyph  g = read_in_section(s, at);
    for (; g.class & HD_CLASS_SPACE; g = read_in_section(s, end)) {
        last = end;
        end = g.end;
        if (g.class & HD_CLASS_NEWLINE) newline = end;
    }
    if (newline) return newline;
    return g.class == CLASS_BEYOND || last == at ? end : last;
}

/* Matches stage 3 at the character `g` that starts at `at`; returns `at` for no match. */
static size_t match_end(const section *s, size_t at, glyph g)
{
    if (s->text[at] < 0x80 && (g.class & CLASS_SIGN)) {
        size_t const end = ascii_word_end(s, g.end);
        if (end > g.end) return end;
    }
    if (g.class & CLASS_WORD) return run_end(s, g.end, CLASS_WORD);
    unsigned const next = read_in_section(s, g.end).class;
    if (!(g.class & (CLASS_SIGN | HD_CLASS_NEWLINE)) && (next & CLASS_WORD))
        return run_end(s, g.end, CLASS_WORD);
    if ((g.class & CLASS_SIGN) || (s->text[at] == ' ' && (next & CLASS_SIGN)))
        return run_end(s, run_end(s, g.end, CLASS_SIGN), HD_CLASS_NEWLINE);
    return g.class & HD_CLASS_SPACE ? space_end(s, at) : at;
}

size_t hd_pretoken_end(const char *text, size_t bytes, size_t at)
{
    section s = {(const unsigned char *)text, bytes, 0};
    glyph   g = read_glyph(&s, at);
    if (g.class & HD_CLASS_NUMBER) return number_end(&s, at);
    s.cjk = g.class & HD_CLASS_CJK;
    size_t end = match_end(&s, at, g);
    if (end > at) return end;
    while (g.class != CLASS_BEYOND && match_end(&s, end, g) == end) {
        end = g.end;
        g = read_in_section(&s, end);
    }
    return end;
}
