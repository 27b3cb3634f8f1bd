#ifndef HD_BASE_STATUS_H
#define HD_BASE_STATUS_H

#include "hadal.h"

#ifdef __cplusplus
#define HD_BEGIN_C extern "C" {
#define HD_END_C   }
#else
#define HD_BEGIN_C
#define HD_END_C
#endif

#if defined(__GNUC__)
#define HD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HD_PRINTF(fmt, args)
#endif

/* Returns from the calling function when `call` fails; the message was written where the
 * cause is known, so nothing is added on the way up. */
#define HD_TRY(call)                        \
    do {                                    \
        hd_status const try_s_ = (call);    \
        if (try_s_ != HD_OK) return try_s_; \
    } while (0)

/* Sets the error and returns its code: HD_FAIL(err, HD_ERR_FORMAT, "tensor %s: ...", name).
 * The code stands there twice so that the compiler sees that no HD_OK comes this way. */
#define HD_FAIL(err, code, ...) return hd_error_set((err), (code), -1, __VA_ARGS__), (code)

HD_BEGIN_C

/* Fills *err (NULL: nothing) and returns `code`.  Control bytes in the message, which may
 * come from a hostile file, are written as '?', and a cut UTF-8 character is dropped.
 * where    byte offset in the file or text, or -1 */
hd_status hd_error_set(hd_error *err, hd_status code, int64_t where, const char *fmt, ...)
    HD_PRINTF(4, 5);

HD_END_C
#endif
