#ifndef HD_DOCTOR_MODULE_PATTERN_H
#define HD_DOCTOR_MODULE_PATTERN_H

#include "base/status.h"

/* The regular expressions that configs name modules by ("re:.*mlp\\..*(gate|up)_proj$"): what they
 * use of Python's, matched in time that is linear in pattern and name, whatever a config says.
 *
 *   characters, . , \d \w \s and their opposites, \. and the like, [a-z0-9_] and [^...],
 *   ( ) and (?: ), |, * + ? also lazy, ^ in front and $ at the end */

HD_BEGIN_C

#define HD_MAX_PATTERN 512 /* steps, of one character or one choice each */

typedef struct hd_pattern_step {
    int8_t  kind;
    int16_t first, second; /* of a choice: how far its two ways are ahead */
    uint8_t set[32];       /* of a character: a bit for each that fits    */
} hd_pattern_step;

typedef struct hd_module_pattern {
    hd_pattern_step steps[HD_MAX_PATTERN];
    int32_t         n;
} hd_module_pattern;

/* returns false when the expression is longer or uses more than that */
bool hd_module_pattern_parse(hd_module_pattern *out, const char *expression);
/* Whether it fits `name` from its first character on, not necessarily to its last: re.match. */
bool hd_module_pattern_fits(const hd_module_pattern *p, const char *name);

HD_END_C
#endif
