#include "cli/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

/* All of this runs in a signal handler: system calls and arithmetic only, no stdio, no heap. */

static char line[4096 + 256]; /* of /proc/self/maps: a range, five columns and a path */

static const char *read_hex(const char *p, uintptr_t *out)
{
    for (*out = 0;; p++) {
        int const digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 87 : -1;
        if (digit < 0) return p;
        *out = *out << 4 | (uintptr_t)digit;
    }
}

/* The path at the end of the line when its range holds the address, else NULL. */
static const char *match_line(uintptr_t address)
{
    uintptr_t   start, end;
    const char *p = read_hex(line, &start);
    if (*p != '-') return NULL;
    read_hex(p + 1, &end);
    return address >= start && address < end ? strchr(line, '/') : NULL;
}

/* The file mapped at an address; NULL when the system does not tell. */
static const char *find_file(uintptr_t address)
{
    int const   fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *path = NULL;
    char        c;
    for (size_t n = 0; fd >= 0 && !path && read(fd, &c, 1) == 1;) {
        if (c != '\n' && n + 1 < sizeof line) {
            line[n++] = c;
            continue;
        }
        line[n] = 0;
        if (c == '\n') n = 0;
        path = match_line(address);
    }
    if (fd >= 0) close(fd);
    return path;
}

static void print(const char *text)
{
    ssize_t const written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not of a file: ends the program as it would have */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    /* Threads that share a pass may meet lost pages at the same time: the first one tells. */
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&is_told)) pause();
    const char *const path = find_file((uintptr_t)info->si_addr);
    hd_file_abandon(); /* nobody finishes what is being written */
    print("hadal: ");
    print(path ? path : "a file of the model");
    print(": cut while in use, or its disk failed\n");
    _exit(HD_EXIT_FAILED);
}

void hd_bus_error_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
