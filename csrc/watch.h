/* Watch: memory that the kernel protects, so that it can say whether it was written to. */
#ifndef ONEGRAPH_WATCH_H
#define ONEGRAPH_WATCH_H

#include "digest.h"
#include <stdbool.h>

enum { WATCH_LEAST = 128 * 1024 }; /* bytes: fewer are read faster than asked for */

typedef struct Watch Watch;

/* Whether this kernel can: Linux 6.7 and later, where it has asynchronous write protection, outside of a sandbox that
   filters system calls (asking might end the process there). */
bool can_watch(void);

/* Start to watch the whole pages within the memory: a new reference, or NULL where they are too few, or the kernel
   would not see all writes, as in memory that is shared with other processes, or mapped from a file. */
Watch *watch_memory(const void *memory, size_t bytes);

/* Whether none of the pages was written to since; false too where that is not known, and from then on. It is not seen
   what a device writes into pages that it has held since before. */
bool watch_is_unwritten(Watch *watch);

/* Whether the pages hold what they held, whoever has written to them: known of those that were unwritten at a fork. What
   is known goes to a watch of the same pages that was begun before, if there is one. */
bool watch_has_contents(const Watch *watch, Watch *next);

/* A number that no other watch of this process has had. Who has the same watch has seen the same contents. */
uint64_t watch_number(const Watch *watch);

/* The first and the last byte but one of the pages: what lies outside of them is not watched. */
const char *watch_start(const Watch *watch);
const char *watch_end(const Watch *watch);

void watch_release(Watch *watch);

#endif
