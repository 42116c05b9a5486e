/* What the files of the extension share. Only hook.c and code_records.c see CPython's internals, through frame.h. */
#ifndef ONEGRAPH_H
#define ONEGRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030f0000
#error "onegraph knows the frames of CPython 3.11 to 3.14"
#endif
#ifdef Py_GIL_DISABLED
#error "onegraph needs a CPython with the global interpreter lock: it replaces code and frames without locks of its own"
#endif

#define UNUSED(name) Py_UNUSED(name)

/* ---- markers (module.c): what the callback may return, and what stands for an unset slot ---- */
extern PyObject *const og_skip;
extern PyObject *const og_eagerly;
extern PyObject *const og_null;

/* What a function of a module of the package gives for a tuple of arguments, in the format of Py_BuildValue. */
PyObject *ask_python(const char *module_name, const char *question, const char *format, ...);

/* ---- a slot of a frame: an object or NULL, borrowed here ---- */
#if PY_VERSION_HEX < 0x030e0000
typedef PyObject *FrameSlot;

static inline PyObject *frame_slot_get(FrameSlot slot) { return slot; }
static inline FrameSlot frame_slot_of(PyObject *object) { return object; }
#else /* the lowest bit says that the frame does not count its reference; NULL has it too */
#define FRAME_SLOT_TAG ((uintptr_t)1)
typedef uintptr_t FrameSlot;

static inline PyObject *frame_slot_get(FrameSlot slot) { return (PyObject *)(slot & ~FRAME_SLOT_TAG); }
static inline FrameSlot frame_slot_of(PyObject *object) { return (uintptr_t)object | FRAME_SLOT_TAG; }
#endif

/* ---- Context: one compiled region, the owner of all that was compiled for it (context.c) ---- */
struct CodeRecord;

typedef struct ContextObject {
    PyObject_HEAD
    PyObject *callback;
    struct CodeRecord *records; /* one for each code object it knows; doubly linked */
    PyObject *weakrefs;
} ContextObject;

extern PyTypeObject Context_Type;

/* ---- GuardProgram: straight-line checks over registers (guard_program.c, guard_eval.c) ---- */
enum { GUARD_PASSED = -1, GUARD_ERROR = -2 };

/* 16 bytes, which encode.py writes and checks. */
typedef struct {
    uint8_t op;
    uint8_t owns; /* keep a strong reference to what this instruction loads */
    uint16_t d;   /* register written */
    uint16_t s;   /* registers read */
    uint16_t t;
    int64_t v; /* a number, or the index of a constant */
} GuardInstruction;

typedef struct {
    PyObject_HEAD
    PyObject *code;   /* bytes of instructions; the last is END */
    PyObject *owned;  /* bytes of 16-bit numbers: registers to release at the end */
    PyObject *consts; /* tuple */
    int n_objects;
    int n_integers;
} GuardProgramObject;

extern PyTypeObject GuardProgram_Type;

/* (name, operands, runs_code) of each instruction, in the order of their numbers. */
PyObject *guard_op_rows(void);
Py_ssize_t guard_program_size(GuardProgramObject *program);

/* The index of the first failing instruction, GUARD_PASSED, or GUARD_ERROR with an exception set.
   `slots` holds the frame's arguments: `n_slots` of them, NULL where unset. */
Py_ssize_t guard_program_run(GuardProgramObject *program, PyFunctionObject *function, const FrameSlot *slots,
                             Py_ssize_t n_slots);

/* ---- Fact: that a class or a namespace is as it was (fact.c) ---- */
typedef struct {
    PyObject_HEAD
    PyObject *check;
    uint64_t version; /* of the class or dict for which check(object) was True; 0: none */
} FactObject;

extern PyTypeObject Fact_Type;

PyObject *module_class_version(PyObject *module, PyObject *cls);
/* The dict's version, which changes whenever the dict does; 0: it has none (dict_version.c). */
uint64_t dict_version(PyObject *dict);
/* 1, 0, or -1 with an exception set. */
int fact_holds(FactObject *self, PyObject *object);

/* ---- Entry: one compiled version of a code object (entry.c) ---- */
typedef struct {
    PyObject_HEAD
    PyCodeObject *code;
    GuardProgramObject *guards; /* NULL: always fits */
    ContextObject *context;
    unsigned long long hits;
    int levels; /* how many frames of the program it stands for, one called from another */
    int opened; /* how many of them, besides the first, it is in when it calls what breaks the graph */
} EntryObject;

extern PyTypeObject Entry_Type;

/* ---- what is known about a code object (code_records.c) ---- */

/* One context's knowledge of one code object. It lives in two lists: the code object's (through its extra slot) and
   the context's; whichever of the two dies first takes it out of the other. The context owns the entries, so that
   the garbage collector sees them: a code object is invisible to it. */
typedef struct CodeRecord {
    ContextObject *context; /* borrowed */
    PyCodeObject *code;     /* borrowed */
    struct CodeRecord *next_of_code;
    struct CodeRecord *previous_of_context;
    struct CodeRecord *next_of_context;
    PyObject *entries; /* tuple of Entry, replaced as a whole; NULL: none */
    bool closed;       /* never ask the callback again */
} CodeRecord;

#define CODE_SKIPPED ((CodeRecord *)1)

int code_records_init(void);
/* The first record of the code object, NULL for none, or CODE_SKIPPED. */
CodeRecord *code_records(PyCodeObject *code);
int code_skip(PyCodeObject *code);
/* The record of a code object for a context, made if there is none; NULL with an exception set on error. */
CodeRecord *code_record(PyCodeObject *code, ContextObject *context);
/* Never ask the callback of this context about the code object again. */
int code_close(PyCodeObject *code, ContextObject *context);
int code_add_entry(PyCodeObject *code, EntryObject *entry);
/* Take the record out of both lists and free it; may run arbitrary code at its end. */
void code_record_drop(CodeRecord *record);
/* Whether a frame of `code` may run `replacement` instead; otherwise sets a ValueError and returns -1. */
int check_replacement(PyCodeObject *code, PyCodeObject *replacement);

/* ---- the frame hook (hook.c) ---- */
typedef struct {
    ContextObject *context; /* borrowed from the running Region; NULL: frames are left alone */
    PyObject *tracer;       /* borrowed from the open trace_hook; NULL: not tracing */
    PyObject *watching;     /* what sys.settrace had set where the outermost region began; compared only */
    int watchers;           /* how many trace functions and audit hooks ran where the region or the trace_hook began */
    Py_ssize_t entered;     /* regions and tracings that are open in this thread */
    void *passed_on;        /* the frame that was handed to another hook below ours: if it comes back, it runs */
    PyCodeObject *direct;   /* the next frame of this code runs as it is */
    PyCodeObject *given;    /* the next frame of this code has what it was called with to itself */
    PyObject **given_args;  /* that, and how many there are: they are released when it starts */
    Py_ssize_t given_count;
    bool given_tail;        /* that frame returns the TailCall that it ends with */
    bool deepened;          /* the callback of a region runs, and may enter more frames than the program */
    int frames_left;        /* how many the program may enter meanwhile */
    bool working;           /* a frame is being compiled, or its backward pass: others run as they are written */
    bool looking;           /* objects that are asked for their class are asked by us, not by the program */
    int8_t settings[2];     /* what the program has said of graph breaks (settings.c): 0 nothing, -1 False, 1 True */
} HookState;

enum { ERROR_ON_GRAPH_BREAK = 0, NESTED_GRAPH_BREAKS = 1, N_SETTINGS = 2 };

extern _Thread_local HookState hook_state;

int hook_init(void);
/* deepen(count): let this thread enter so many more Python frames, or fewer again. */
PyObject *module_deepen(PyObject *module, PyObject *count);
PyObject *module_frames_left(PyObject *module, PyObject *ignored);
/* looking(flag) -> previous: while it is set, `isinstance` calls no `__getattribute__` of the program. */
PyObject *module_looking(PyObject *module, PyObject *flag);
/* working(flag) -> previous: while it is set, no frame of this thread is compiled, and signals wait. */
PyObject *module_working(PyObject *module, PyObject *flag);
/* What is to be undone in the chain of hooks (chain.c). */
typedef struct {
    PyObject *torch; /* what torch's own hook does in this thread; NULL: nothing */
    bool put;        /* ours was put on top */
    bool again;      /* it was in the chain already, below another one */
    PyObject *(*below)(PyThreadState *, struct _PyInterpreterFrame *, int); /* what it had below there */
} HookPlace;

/* Frames are seen between enter and leave, by any thread whose hook_state asks for it. */
HookPlace hook_enter(void);
void hook_leave(HookPlace place);

/* ---- signals wait while a thread of ours works (signals.c) ---- */
/* Let the handlers of signals wait; whether they did before. Only the main thread has any. */
bool signals_defer(void);
/* The other end of it, with what it has returned: run the handlers; -1 with an exception if one raises it. */
int signals_allow(bool waited);

/* ---- what a program says while it runs (settings.c) ---- */
extern bool eager_is_forced; /* regions run their functions as they are written, in all threads */
PyObject *module_exchange_setting(PyObject *module, PyObject *args);
PyObject *module_force_eager(PyObject *module, PyObject *forced);

/* Whether this thread takes denormal numbers for zero. */
bool flushes_denormals(void);
PyObject *module_flush_denormals(PyObject *module, PyObject *flush);

/* ---- large pages of memory (pages.c) ---- */
void prefer_large_pages(void *memory, int64_t bytes);
PyObject *module_prefer_large_pages(PyObject *module, PyObject *args);
PyObject *module_move_to_large_pages(PyObject *module, PyObject *args);

/* ---- what an object is, told by its type alone (kinds.c) ---- */
PyObject *module_is_of(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *module_answers_itself(PyObject *module, PyObject *cls);
PyObject *module_look_up(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *module_is_generic(PyObject *module, PyObject *method);

/* ---- what functools.lru_cache has (cached.c) ---- */
PyObject *cached_result(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- callables around functions (region.c), tracing (trace_hook.c) ---- */
extern PyTypeObject Region_Type;
extern PyTypeObject Disabled_Type;
extern PyTypeObject TraceHook_Type;
PyObject *on_failure(PyObject *module, PyObject *listener);
/* Tell the listener of the error that is set, if it is a RuntimeError: whether it knows what it is, an error of processes
   that cannot communicate. What the listener itself raises is raised in its place, and is known: an interrupt. */
bool failure_is_known(void);

/* ---- compiled graphs (graph.c) ---- */
extern PyTypeObject Graph_Type;

/* ---- going on behind a graph break (resume.c) ---- */
extern PyTypeObject TailCall_Type;
/* The result of a replacement, or of what it has asked to be called; consumes the reference. */
PyObject *resume_tail_calls(PyObject *result);
void resume_release(PyObject **args, Py_ssize_t count);
PyObject *resume_call(PyObject *module, PyObject *call);
PyObject *resume_hand_over_new(void);

#endif
