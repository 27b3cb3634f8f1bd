#ifndef HD_GRAMMAR_SCHEMA_FORMAT_H
#define HD_GRAMMAR_SCHEMA_FORMAT_H

#include <stddef.h>

#include "base/status.h"

HD_BEGIN_C

/* The pattern of a value of the keyword `format`; NULL for one that is not enforced. */
const char *hd_format_pattern(const char *name);

HD_END_C
#endif
