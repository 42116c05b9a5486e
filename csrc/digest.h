/* A digest of memory, to notice that it was written to. */
#ifndef ONEGRAPH_DIGEST_H
#define ONEGRAPH_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_LANES = 128 };

typedef struct {
    uint32_t lanes[DIGEST_LANES];
} Digest;

/* Each word of the memory goes into one of the lanes, by a step that is one to one both in the word and in the lane: a
   change of one word always shows. Others are missed with a probability of 2^-32 for each lane that they are in. */
void digest_of(const void *memory, size_t bytes, Digest *out);

#endif
