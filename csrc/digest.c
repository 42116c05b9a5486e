/* Digests at the speed of memory. */
#include "digest.h"
#include <string.h>

typedef uint32_t Vector __attribute__((vector_size(64)));
enum { VECTORS = DIGEST_LANES / 16, BLOCK = DIGEST_LANES * 4 };

#if defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

FOR_EACH_CPU static void add_blocks(const char *memory, size_t blocks, uint32_t *lanes)
{
    Vector state[VECTORS];
    memcpy(state, lanes, sizeof(state));
    for (size_t block = 0; block < blocks; block++, memory += BLOCK) {
        for (int i = 0; i < VECTORS; i++) {
            Vector words;
            memcpy(&words, memory + i * sizeof(Vector), sizeof(words));
            Vector mixed = (state[i] ^ words) * 0x9e3779b1u; /* an odd factor: nothing is lost */
            state[i] = mixed ^ (mixed >> 15);
        }
    }
    memcpy(lanes, state, sizeof(state));
}

void digest_of(const void *memory, size_t bytes, Digest *out)
{
    for (uint32_t i = 0; i < DIGEST_LANES; i++) {
        out->lanes[i] = i * 0x85ebca6bu + (uint32_t)bytes;
    }
    size_t blocks = bytes / BLOCK;
    add_blocks(memory, blocks, out->lanes);
    char rest[BLOCK] = {0};
    size_t left = bytes - blocks * BLOCK;
    if (left > 0) {
        memcpy(rest, (const char *)memory + blocks * BLOCK, left);
        add_blocks(rest, 1, out->lanes);
    }
}
