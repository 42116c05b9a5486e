/* The graphs of a pair as one function that records gradients. */
#ifndef ONEGRAPH_PAIR_H
#define ONEGRAPH_PAIR_H

#include "onegraph.h"
#include "plan.h"

typedef struct {
    Py_ssize_t n;
    Py_ssize_t *at;
} Indices;

/* What the calls have in common. `results` are those of the forward graph, and the numbers are positions. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PlanObject *forward;
    PyObject *backward;  /* a plan; None: Python makes the passes */
    PyObject *record;    /* record(recorded, *reached): the `apply` of a torch.autograd.Function */
    PyObject *otherwise; /* otherwise(*inputs): the same call, in Python */
    PyObject *later;     /* later(ctx, *tangents): the same backward pass, in Python */
    PyObject *probe;     /* probe(tensor): one without memory that counts the writes to it, and the shape that it has */
    PyObject *laid_out;  /* laid_out(tensor, strides) */
    PyObject *gradient;  /* gradient(place, results, laid, given) */
    PyObject *draws;     /* draws(): the state of the random numbers that the graph draws; None: it draws none */
    PyObject *owner;     /* for Python */
    PyObject *parts;     /* of each gradient that is not just a result or a tangent, what `gradient` asks; else None */
    Indices outputs;     /* the results that the caller is given */
    Indices followed;    /* those that have gradients */
    Indices reached;     /* the inputs that get gradients */
    Indices kept;        /* what the backward graph takes: input n, or result n as -n - 1 */
    Indices shown;       /* positions among these: the caller is given it, too */
    Indices probed;      /* further results that nobody may write to before the backward pass */
    Indices gradients;   /* of each reached input: result n of the backward graph, or tangent n as -n - 1 */
    Py_ssize_t n_inputs;
    bool frees; /* a backward pass is the last one, unless it is said otherwise */
} PairObject;

extern PyTypeObject Pair_Type;

/* What one call keeps for its backward pass. The numbers are the versions of the inputs, of what is shown, and of the
   probes; behind them, of each result that has gradients, how many dimensions it has, and their strides. */
typedef struct {
    PyObject_VAR_HEAD
    PairObject *pair;
    PyObject *inputs; /* tuples; NULL: a pass has let go of them, or Python has taken over */
    PyObject *kept;
    PyObject *probes; /* what `probe` gives, or the tensor itself */
    PyObject *random; /* what `draws` gave; None: nothing was asked for */
    PyObject *results; /* while the node is made, borrowed */
    bool taken_over;
    int64_t numbers[];
} RecordedObject;

extern PyTypeObject Recorded_Type;

/* recorded.c: of a call with these inputs and results, before which random numbers were in this state; NULL with an
   exception set. */
RecordedObject *recorded_new(PairObject *pair, PyObject *inputs, PyObject *results, PyObject *random);
/* The forward of the torch.autograd.Function, and the `apply` of its node, which is bound to it. */
PyObject *recorded_forward(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *recorded_backward_new(void);

#endif
