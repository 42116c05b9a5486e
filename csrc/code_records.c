/* What each context knows about each code object: compiled entries, or that it is to be left alone. */
#include "frame.h"

static Py_ssize_t extra_index;

/* The extra slot holds a cell with the first record. The cell stays: CPython frees what is overwritten in the slot. */
static CodeRecord **cell_of(PyCodeObject *code)
{
    void *extra = NULL;
    /* Fails only for something that is no code object. */
    code_get_extra((PyObject *)code, extra_index, &extra);
    return extra;
}

/* NULL with an exception set on error. */
static CodeRecord **make_cell(PyCodeObject *code)
{
    CodeRecord **cell = cell_of(code);
    if (cell == NULL) {
        cell = PyMem_Calloc(1, sizeof(CodeRecord *));
        if (cell == NULL) {
            PyErr_NoMemory();
        } else if (code_set_extra((PyObject *)code, extra_index, cell) < 0) {
            PyMem_Free(cell);
            cell = NULL;
        }
    }
    return cell;
}

CodeRecord *code_records(PyCodeObject *code)
{
    CodeRecord **cell = cell_of(code);
    return cell == NULL ? NULL : *cell;
}

static void unlink_from_context(CodeRecord *record)
{
    if (record->previous_of_context != NULL) {
        record->previous_of_context->next_of_context = record->next_of_context;
    } else {
        record->context->records = record->next_of_context;
    }
    if (record->next_of_context != NULL) {
        record->next_of_context->previous_of_context = record->previous_of_context;
    }
}

static void unlink_from_code(CodeRecord *record)
{
    CodeRecord **link = cell_of(record->code);
    while (*link != record) {
        link = &(*link)->next_of_code;
    }
    *link = record->next_of_code;
}

void code_record_drop(CodeRecord *record)
{
    PyObject *entries = record->entries;
    unlink_from_code(record);
    unlink_from_context(record);
    PyMem_Free(record);
    Py_XDECREF(entries);
}

/* The code object dies: the records of all contexts go with it. First no context knows them any more, for dropping
   an entry may run arbitrary code. */
static void free_records(void *extra)
{
    if (extra == NULL) {
        return;
    }
    CodeRecord *first = *(CodeRecord **)extra == CODE_SKIPPED ? NULL : *(CodeRecord **)extra;
    PyMem_Free(extra);
    for (CodeRecord *record = first; record != NULL; record = record->next_of_code) {
        unlink_from_context(record);
    }
    for (CodeRecord *record = first, *next; record != NULL; record = next) {
        next = record->next_of_code;
        Py_XDECREF(record->entries);
        PyMem_Free(record);
    }
}

static void forget(PyCodeObject *code)
{
    Py_INCREF(code); /* dropping an entry may run arbitrary code */
    CodeRecord **cell = cell_of(code);
    while (cell != NULL && *cell != NULL) {
        if (*cell == CODE_SKIPPED) {
            *cell = NULL;
        } else {
            code_record_drop(*cell);
        }
    }
    Py_DECREF(code);
}

int code_skip(PyCodeObject *code)
{
    CodeRecord **cell = make_cell(code);
    if (cell == NULL) {
        return -1;
    }
    forget(code);
    *cell = CODE_SKIPPED;
    return 0;
}

CodeRecord *code_record(PyCodeObject *code, ContextObject *context)
{
    CodeRecord **cell = make_cell(code);
    if (cell == NULL) {
        return NULL;
    }
    CodeRecord *first = *cell == CODE_SKIPPED ? NULL : *cell;
    for (CodeRecord *record = first; record != NULL; record = record->next_of_code) {
        if (record->context == context) {
            return record;
        }
    }
    CodeRecord *record = PyMem_Calloc(1, sizeof(CodeRecord));
    if (record == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *cell = record;
    record->context = context;
    record->code = code;
    record->next_of_code = first;
    record->next_of_context = context->records;
    if (context->records != NULL) {
        context->records->previous_of_context = record;
    }
    context->records = record;
    return record;
}

int code_close(PyCodeObject *code, ContextObject *context)
{
    if (code_records(code) == CODE_SKIPPED) {
        return 0;
    }
    CodeRecord *record = code_record(code, context);
    if (record == NULL) {
        return -1;
    }
    record->closed = true;
    return 0;
}

int check_replacement(PyCodeObject *code, PyCodeObject *replacement)
{
    const int arguments = CO_VARARGS | CO_VARKEYWORDS;
    const int function = CO_OPTIMIZED | CO_NEWLOCALS;
    const int suspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    const char *difference = NULL;
    if (replacement->co_argcount != code->co_argcount || replacement->co_posonlyargcount != code->co_posonlyargcount ||
        replacement->co_kwonlyargcount != code->co_kwonlyargcount ||
        (replacement->co_flags & arguments) != (code->co_flags & arguments)) {
        difference = "takes other arguments";
    } else if (replacement->co_nfreevars > code->co_nfreevars) {
        difference = "has more free variables";
    } else if ((replacement->co_flags & function) != function) {
        difference = "is not the code of a function";
    } else if (replacement->co_flags & suspends) {
        difference = "is a generator or coroutine";
    }
    if (difference != NULL) {
        PyErr_Format(PyExc_ValueError, "%U cannot run in place of %U: it %s", replacement->co_qualname,
                     code->co_qualname, difference);
        return -1;
    }
    return 0;
}

static PyObject *tuple_append(PyObject *tuple, PyObject *item)
{
    Py_ssize_t size = tuple == NULL ? 0 : PyTuple_GET_SIZE(tuple);
    PyObject *longer = PyTuple_New(size + 1);
    if (longer != NULL) {
        for (Py_ssize_t i = 0; i < size; i++) {
            PyTuple_SET_ITEM(longer, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
        }
        PyTuple_SET_ITEM(longer, size, Py_NewRef(item));
    }
    return longer;
}

int code_add_entry(PyCodeObject *code, EntryObject *entry)
{
    CodeRecord *record;
    PyObject *old = NULL, *entries = NULL;
    if (check_replacement(code, entry->code) < 0 || (record = code_record(code, entry->context)) == NULL) {
        return -1;
    }
    do { /* again, if making the tuple collected garbage that changed the record */
        Py_XSETREF(old, Py_XNewRef(record->entries));
        Py_ssize_t size = old == NULL ? 0 : PyTuple_GET_SIZE(old);
        for (Py_ssize_t i = 0; i < size; i++) {
            if (PyTuple_GET_ITEM(old, i) == (PyObject *)entry) {
                Py_XDECREF(entries);
                Py_DECREF(old);
                return 0;
            }
        }
        Py_XSETREF(entries, tuple_append(old, (PyObject *)entry));
        if (entries == NULL || (record = code_record(code, entry->context)) == NULL) {
            Py_XDECREF(entries);
            Py_XDECREF(old);
            return -1;
        }
    } while (record->entries != old);
    Py_XSETREF(record->entries, entries);
    Py_XDECREF(old);
    code_reserve_frame(code, code_frame_size(entry->code));
    return 0;
}

int code_records_init(void)
{
    extra_index = code_request_extra(free_records);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_ImportError, "CPython has no slot left for data of code objects");
        return -1;
    }
    return 0;
}
