#ifndef HD_CLI_BUS_ERROR_H
#define HD_CLI_BUS_ERROR_H

/* The library maps a model's files.  When another process cuts one, or its disk fails, the system
 * answers the next look at a lost page with SIGBUS, in the middle of whatever was computed. */

/* From now on such a signal ends the program with one line that names the file, and status 1. */
void hd_bus_error_watch(void);

#endif
