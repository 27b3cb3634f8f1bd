#include "fail_each.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

int32_t fail_each(const fail_each_call *c)
{
    for (int32_t n = 1;; n++) {
        hd_error err = {0};
        c->fail_at(n);
        hd_status const got = c->call(c->user, &err);
        c->fail_at(0);
        if (got == HD_OK) return n - 1;
        if (got != c->code || err.code != c->code)
            fail_msg("operation %d failed, the call says %s: %s", n, hd_status_name(got),
                     err.message);
        assert_true(err.message[0] != 0);
        assert_null(strchr(err.message, '\n'));
        if (c->check) c->check(c->user, &err);
    }
}
