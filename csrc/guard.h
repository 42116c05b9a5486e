/* The instructions of guard programs. */
#ifndef ONEGRAPH_GUARD_H
#define ONEGRAPH_GUARD_H

#include "onegraph.h"

typedef enum {
#define GUARD_OP(name, operands, runs_code, ...) OP_##name,
#include "guard_ops.def"
#undef GUARD_OP
    N_GUARD_OPS
} GuardOp;

#endif
