/* Kept: a value that is made of tensors, kept while they are as they were. */
#include "digest.h"
#include "kept.h"
#include "libtorch.h"
#include "tensor.h"
#include "tensor_make.h"
#include "watch.h"
#include <stddef.h>
#include <structmember.h>

enum {
    LONG = 64 * 1024, /* bytes from which on other threads may run Python meanwhile */
    MOST_PATIENT = 1 << 20,
};

/* How it is known that a tensor is as it was. */
typedef enum {
    BY_DIGEST,
    BY_WATCH,   /* by the digest too, where the kernel cannot tell */
    BY_VERSION, /* and identity; by the digest where there is none */
} Check;

/* One tensor as it was when the value was made. */
typedef struct {
    PyObject *reference; /* weak; NULL: None was given, or there is no value */
    PyObject *known;     /* what it refers to, borrowed: both go when that dies */
    PyObject *version;   /* of an identity that is trusted; else NULL */
    void *data;
    size_t bytes;
    Digest digest;   /* of its bytes, or of what names them */
    bool named;      /* nothing was read but the edges */
    Watch *watch;    /* of most of its bytes; NULL: of none */
    Digest edges[2]; /* of those before and behind what is watched */
} Seen;

/* What contents are called that are watched: who sees them by the same watch sees the same. */
typedef struct {
    uint64_t watch;
    uint64_t address, bytes;
    Digest edges[2];
} Name;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *weakrefs;
    PyObject *make;
    PyObject *value; /* NULL: there is none */
    Seen *seen;
    int64_t *itemsizes;
    Py_ssize_t n;
    Check check;
    Py_ssize_t calm;     /* calls since something was written or began to be watched */
    Py_ssize_t patience; /* of such calls, before more is watched: the first write to a watched page is slow */
} KeptObject;

static void drop(Seen *seen, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; seen != NULL && i < n; i++) {
        Py_CLEAR(seen[i].reference);
        seen[i].known = NULL;
        Py_CLEAR(seen[i].version);
        watch_release(seen[i].watch);
        seen[i].watch = NULL;
    }
}

static void forget(KeptObject *self)
{
    drop(self->seen, self->n);
    Py_CLEAR(self->value);
}

/* Called when a tensor dies. */
static PyObject *kept_clear_value(KeptObject *self, PyObject *UNUSED(ignored))
{
    forget(self);
    Py_RETURN_NONE;
}

/* The version counter, or NULL for a tensor that has none. */
static PyObject *version_of(PyObject *tensor)
{
    PyObject *version = PyObject_GetAttrString(tensor, "_version");
    if (version == NULL) {
        PyErr_Clear();
    }
    return version;
}

static int memory_of(const KeptObject *self, Py_ssize_t i, PyObject *tensor, void **data, size_t *bytes)
{
    int64_t elements = 1, ndim, *sizes;
    const Libtorch *torch = libtorch_checked();
    if (tensor_data(tensor, data) < 0) {
        return -1;
    }
    if (torch->get_dim(tensor_handle(tensor), &ndim) || torch->get_sizes(tensor_handle(tensor), &sizes)) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor with sizes is expected");
        return -1;
    }
    for (int64_t d = 0; d < ndim; d++) {
        elements *= sizes[d];
    }
    *bytes = (size_t)(elements * self->itemsizes[i]);
    return 0;
}

static void digest_freely(const void *data, size_t bytes, Digest *out)
{
    PyThreadState *released = bytes >= LONG ? PyEval_SaveThread() : NULL;
    digest_of(data, bytes, out);
    if (released != NULL) {
        PyEval_RestoreThread(released);
    }
}

static void digest_edges(const Seen *seen, Digest *out)
{
    const char *start = watch_start(seen->watch), *end = watch_end(seen->watch), *data = seen->data;
    digest_of(data, (size_t)(start - data), &out[0]);
    digest_of(end, (size_t)(data + seen->bytes - end), &out[1]);
}

/* Begin to watch, before the digest is taken: what is written meanwhile shows in one of them. */
static void begin_to_watch(Seen *seen)
{
    seen->watch = watch_memory(seen->data, seen->bytes);
    if (seen->watch != NULL) {
        digest_edges(seen, seen->edges);
    }
}

/* The same memory, with the same contents outside of what is watched. */
static bool has_equal_edges(const Seen *seen, const Seen *fresh)
{
    if (fresh->data != seen->data || fresh->bytes != seen->bytes) {
        return false;
    }
    Digest edges[2];
    digest_edges(seen, edges);
    return memcmp(edges, seen->edges, sizeof(edges)) == 0;
}

/* Reading all of a tensor while the threads of a graph wait for their work costs twice: what is watched is not read. */
static void name_contents(Seen *seen)
{
    Name name = {watch_number(seen->watch), (uintptr_t)seen->data, seen->bytes, {{{0}}}};
    memcpy(name.edges, seen->edges, sizeof(name.edges));
    digest_of(&name, sizeof(name), &seen->digest);
    seen->named = true;
}

/* Whether to watch this tensor from now on; rarely asked for, as long as it is written to or cannot be watched. */
static bool is_time_to_watch(KeptObject *self, size_t bytes)
{
    if (self->check != BY_WATCH || bytes < WATCH_LEAST || self->calm < self->patience) {
        return false;
    }
    self->calm = 0;
    self->patience = self->patience == 0 ? 1 : Py_MIN(self->patience * 2, MOST_PATIENT);
    return true;
}

/* Whether the pages of a watch that is lost, with the edges as they were, hold what it saw; they are watched again after
   a while, as long as they do. */
static bool has_named_contents(KeptObject *self, Seen *seen)
{
    Watch *next = is_time_to_watch(self, seen->bytes) ? watch_memory(seen->data, seen->bytes) : NULL;
    bool same = watch_has_contents(seen->watch, next);
    if (same && next != NULL) {
        watch_release(seen->watch);
        seen->watch = next;
    } else {
        watch_release(next);
    }
    return same;
}

/* By its contents. Other threads may run meanwhile, and change what is seen: it is looked up again behind that. */
static int has_equal_contents(KeptObject *self, Py_ssize_t i, PyObject *tensor)
{
    Seen fresh = {0};
    if (memory_of(self, i, tensor, &fresh.data, &fresh.bytes) < 0) {
        return -1;
    }
    Seen *seen = &self->seen[i];
    if (seen->watch != NULL) {
        bool equal = has_equal_edges(seen, &fresh);
        if (equal && watch_is_unwritten(seen->watch)) {
            return 1;
        }
        if (equal && seen->named && has_named_contents(self, seen)) {
            return 1;
        }
        watch_release(seen->watch);
        seen->watch = NULL;
        self->calm = 0;
        if (seen->named) {
            return 0;
        }
    }
    if (is_time_to_watch(self, fresh.bytes)) {
        begin_to_watch(&fresh);
    }
    digest_freely(fresh.data, fresh.bytes, &fresh.digest);
    seen = &self->seen[i];
    bool same = seen->reference != NULL && memcmp(&fresh.digest, &seen->digest, sizeof(Digest)) == 0;
    if (same && seen->watch == NULL) {
        fresh.reference = seen->reference;
        fresh.known = seen->known;
        fresh.version = seen->version;
        *seen = fresh;
    } else {
        watch_release(fresh.watch);
    }
    return same;
}

/* 1 if the tensor is as it was, 0 if not, -1 with an exception set. */
static int is_as_before(KeptObject *self, Py_ssize_t i, PyObject *tensor)
{
    Seen *seen = &self->seen[i];
    if (seen->reference == NULL || tensor == Py_None) {
        return seen->reference == NULL && tensor == Py_None;
    }
    if (seen->version != NULL && seen->known == tensor) {
        void *data;
        if (tensor_data(tensor, &data) < 0) {
            return -1;
        }
        PyObject *version = version_of(tensor);
        int same = version == NULL || data != seen->data ? 0 : PyObject_RichCompareBool(version, seen->version, Py_EQ);
        Py_XDECREF(version);
        return same;
    }
    return seen->version != NULL ? 0 : has_equal_contents(self, i, tensor);
}

static int look_at(KeptObject *self, Py_ssize_t i, PyObject *tensor, PyObject *clear, Seen *out)
{
    if (tensor == Py_None) {
        return 0;
    }
    if (memory_of(self, i, tensor, &out->data, &out->bytes) < 0) {
        return -1;
    }
    if (is_time_to_watch(self, out->bytes)) {
        begin_to_watch(out);
    }
    if (out->watch != NULL) {
        name_contents(out);
    } else {
        digest_freely(out->data, out->bytes, &out->digest);
    }
    out->reference = PyWeakref_NewRef(tensor, clear);
    out->known = tensor;
    out->version = self->check == BY_VERSION ? version_of(tensor) : NULL;
    return out->reference == NULL ? -1 : 0;
}

/* make(digests, *tensors) */
static PyObject *call_make(const KeptObject *self, const Seen *seen, PyObject *const *args)
{
    PyObject *digests = PyBytes_FromStringAndSize(NULL, self->n * (Py_ssize_t)sizeof(Digest));
    PyObject **call = PyMem_Calloc((size_t)self->n + 1, sizeof(PyObject *));
    PyObject *value = NULL;
    if (digests != NULL && call != NULL) {
        for (Py_ssize_t i = 0; i < self->n; i++) {
            char *place = PyBytes_AS_STRING(digests) + i * (Py_ssize_t)sizeof(Digest);
            memcpy(place, &seen[i].digest, sizeof(Digest));
            call[i + 1] = args[i];
        }
        call[0] = digests;
        value = PyObject_Vectorcall(self->make, call, (size_t)self->n + 1, NULL);
    }
    PyMem_Free(call);
    Py_XDECREF(digests);
    return value;
}

/* Other threads may do the same meanwhile: the value and what it was made of are put in place together. */
static PyObject *make_value(KeptObject *self, PyObject *const *args)
{
    PyObject *clear = PyObject_GetAttrString((PyObject *)self, "clear");
    Seen *seen = PyMem_Calloc((size_t)self->n + 1, sizeof(Seen));
    int status = clear == NULL || seen == NULL ? -1 : 0;
    if (seen == NULL) {
        PyErr_NoMemory();
    }
    forget(self); /* its memory is free before new memory is taken */
    for (Py_ssize_t i = 0; status == 0 && i < self->n; i++) {
        status = look_at(self, i, args[i], clear, &seen[i]);
    }
    PyObject *value = status < 0 ? NULL : call_make(self, seen, args);
    Py_XDECREF(clear);
    if (value == NULL) {
        drop(seen, self->n);
        PyMem_Free(seen);
        return NULL;
    }
    Seen *before = self->seen;
    PyObject *value_before = self->value;
    self->seen = seen;
    self->value = Py_NewRef(value);
    drop(before, self->n);
    PyMem_Free(before);
    Py_XDECREF(value_before);
    self->calm = 0;
    return value;
}

static PyObject *kept_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    KeptObject *self = (KeptObject *)object;
    if (PyVectorcall_NARGS(nargsf) != self->n || (names != NULL && PyTuple_GET_SIZE(names) != 0)) {
        return PyErr_Format(PyExc_TypeError, "%zd tensors are expected", self->n);
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        if (args[i] != Py_None && !is_tensor(args[i])) {
            return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(args[i])->tp_name);
        }
    }
    /* Held while digests are taken, when other threads run. */
    PyObject *value = Py_XNewRef(self->value);
    for (Py_ssize_t i = 0; value != NULL && i < self->n; i++) {
        int same = is_as_before(self, i, args[i]);
        if (same < 0) {
            Py_DECREF(value);
            return NULL;
        }
        if (same == 0 || self->value != value) {
            Py_CLEAR(value);
        }
    }
    if (value == NULL) {
        return make_value(self, args);
    }
    self->calm++;
    return value;
}

Py_ssize_t kept_size(PyObject *object) { return ((KeptObject *)object)->n; }

bool kept_is_free(PyObject *object)
{
    return ((KeptObject *)object)->value == NULL;
}

bool kept_is_of(PyObject *object, PyObject *const *args)
{
    KeptObject *self = (KeptObject *)object;
    Py_ssize_t i = 0;
    while (i < self->n && args[i] == Py_None) {
        i++;
    }
    return i == self->n || self->seen[i].known == args[i];
}

static PyObject *kept_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"make", "itemsizes", "check", NULL};
    static const char *const checks[] = {[BY_DIGEST] = "digest", [BY_WATCH] = "watch", [BY_VERSION] = "version"};
    PyObject *make, *itemsizes;
    const char *name;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!s:Kept", names, &make, &PyTuple_Type, &itemsizes, &name)) {
        return NULL;
    }
    int check = BY_DIGEST;
    while (check <= BY_VERSION && strcmp(checks[check], name) != 0) {
        check++;
    }
    if (check > BY_VERSION) {
        return PyErr_Format(PyExc_ValueError, "check is 'digest', 'watch' or 'version', not '%s'", name);
    }
    if (!tensor_make_ready()) {
        PyErr_SetString(PyExc_NotImplementedError, "this torch has not what the native launcher needs");
        return NULL;
    }
    KeptObject *self = (KeptObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = kept_call;
    self->make = Py_NewRef(make);
    self->check = (Check)check;
    self->n = PyTuple_GET_SIZE(itemsizes);
    self->seen = PyMem_Calloc((size_t)self->n + 1, sizeof(Seen));
    self->itemsizes = PyMem_Calloc((size_t)self->n + 1, sizeof(int64_t));
    if (self->seen == NULL || self->itemsizes == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        self->itemsizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(itemsizes, i));
        if (PyErr_Occurred()) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int kept_traverse(KeptObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->make);
    Py_VISIT(self->value);
    for (Py_ssize_t i = 0; i < self->n && self->seen != NULL; i++) {
        Py_VISIT(self->seen[i].reference);
    }
    return 0;
}

static int kept_clear(KeptObject *self)
{
    forget(self);
    Py_CLEAR(self->make);
    return 0;
}

static void kept_dealloc(KeptObject *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    kept_clear(self);
    PyMem_Free(self->seen);
    PyMem_Free(self->itemsizes);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *kept_watched(KeptObject *self, void *UNUSED(closure))
{
    long count = 0;
    for (Py_ssize_t i = 0; i < self->n; i++) {
        count += self->seen[i].watch != NULL;
    }
    return PyLong_FromLong(count);
}

static PyGetSetDef kept_getset[] = {
    {"watched", (getter)kept_watched, NULL, PyDoc_STR("how many of the tensors are watched"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef kept_methods[] = {
    {"clear", (PyCFunction)kept_clear_value, METH_VARARGS, "clear(*ignored)\n--\n\nForget the value."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef kept_members[] = {
    {"value", T_OBJECT, offsetof(KeptObject, value), READONLY, "the value, or None"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KeptObject, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(KeptObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Kept_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Kept",
    .tp_basicsize = sizeof(KeptObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(KeptObject, vectorcall),
    .tp_weaklistoffset = offsetof(KeptObject, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_new = kept_new,
    .tp_traverse = (traverseproc)kept_traverse,
    .tp_clear = (inquiry)kept_clear,
    .tp_dealloc = (destructor)kept_dealloc,
    .tp_methods = kept_methods,
    .tp_members = kept_members,
    .tp_getset = kept_getset,
};
