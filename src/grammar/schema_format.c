#include "grammar/schema_format.h"

#include <string.h>

/* Formats as patterns.  Each is as the specification that JSON Schema names has it, or narrower:
 * an answer that fits here fits there. */

/* RFC 3339.  There is no year 0, and the 29th of February only in years that have it; no leap
 * seconds. */
#define YEAR      "(\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})"
#define LEAP_YEAR "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                             \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])" \
    "|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"

/* RFC 1123. */
#define LABEL    "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOSTNAME LABEL "(\\." LABEL "){0,3}"

/* RFC 5321, without quotes and addresses in brackets. */
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}"
#define EMAIL ATOM "(\\." ATOM ")?@" LABEL "(\\." LABEL "){1,3}"

#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "\\." OCTET "\\." OCTET "\\." OCTET

/* RFC 4291, without an IPv4 address at the end. */
#define H16 "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                                     \
    "((" H16 ":){7}" H16 "|(" H16 ":){1,7}:|(" H16 ":){1,6}:" H16 "|(" H16 ":){1,5}(:" H16       \
    "){1,2}|(" H16 ":){1,4}(:" H16 "){1,3}|(" H16 ":){1,3}(:" H16 "){1,4}|(" H16 ":){1,2}(:" H16 \
    "){1,5}|" H16 ":(:" H16 "){1,6}|:((:" H16 "){1,7}|:))"

#define HEX8 "[0-9A-Fa-f]{8}"
#define HEX4 "[0-9A-Fa-f]{4}"
#define UUID HEX8 "-" HEX4 "-" HEX4 "-" HEX4 "-" HEX8 HEX4

/* RFC 3986, with a host after //, where there is one. */
#define URI_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
#define URI                                                                              \
    "[A-Za-z][A-Za-z0-9+.-]*:(//([A-Za-z0-9._~-]+@)?" HOSTNAME "(:\\d{1,5})?(/" URI_CHAR \
    "*)?|[A-Za-z0-9._~!$&'()*+,;=:@-]" URI_CHAR "*)"                                     \
    "(\\?(" URI_CHAR "|\\?)*)?(#(" URI_CHAR "|\\?)*)?"

/* RFC 3339, appendix A. */
#define SECONDS "\\d{1,9}S"
#define MINUTES "\\d{1,9}M(" SECONDS ")?"
#define HOURS   "\\d{1,9}H(" MINUTES ")?"
#define T_PART  "T(" HOURS "|" MINUTES "|" SECONDS ")"
#define MONTHS  "\\d{1,9}M(\\d{1,9}D)?"
#define DURATION \
    "P((\\d{1,9}D|" MONTHS "|\\d{1,9}Y(" MONTHS ")?)(" T_PART ")?|" T_PART "|\\d{1,9}W)"

#define WHOLE(pattern) "^(" pattern ")$"

const char *hd_format_pattern(const char *name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", WHOLE(DATE)},         {"time", WHOLE(TIME)},   {"date-time", WHOLE(DATE "T" TIME)},
        {"duration", WHOLE(DURATION)}, {"email", WHOLE(EMAIL)}, {"hostname", WHOLE(HOSTNAME)},
        {"ipv4", WHOLE(IPV4)},         {"ipv6", WHOLE(IPV6)},   {"uuid", WHOLE(UUID)},
        {"uri", WHOLE(URI)},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    return NULL;
}
