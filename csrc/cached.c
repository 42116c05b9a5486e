/* What functools.lru_cache has: the result of a call, found without the cache counting it.

   There is no way to ask. What a wrapper shows the garbage collector is, in this order: its type; of each call in a cache
   of limited size, from the oldest on, the key, the result and the type of the link; a dict, by key of links or, where the
   size is not limited, of results; other things. (lru_cache_tp_traverse in CPython's Modules/_functoolsmodule.c, 3.11 to
   3.14.) No key is a dict. */
#include "onegraph.h"

typedef struct {
    PyObject *known;  /* the key as the cache has it */
    PyObject *result; /* borrowed */
    PyObject *dict;
    Py_ssize_t seen;
    int next_is_result;
} Search;

static int look(PyObject *each, void *data)
{
    Search *search = data;
    Py_ssize_t place = search->seen++;
    if (search->next_is_result) {
        search->result = each;
        return 1;
    }
    if (place % 3 != 1)
        return 0;
    if (PyDict_CheckExact(each)) {
        search->dict = each;
        return 1;
    }
    search->next_is_result = each == search->known;
    return 0;
}

/* cached_result(wrapper, key, known, missing): of a limited cache only by the key object that it has itself, `known`. */
PyObject *cached_result(PyObject *UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !Py_TYPE(args[0])->tp_traverse) {
        PyErr_SetString(PyExc_TypeError, "cached_result() takes a wrapper, two keys and a default");
        return NULL;
    }
    Search search = {args[2], NULL, NULL, 0, 0};
    Py_TYPE(args[0])->tp_traverse(args[0], look, &search);
    int is_limited = search.seen > 2;
    if (!search.result && search.dict && !is_limited) {
        search.result = PyDict_GetItemWithError(search.dict, args[1]);
        if (!search.result && PyErr_Occurred())
            return NULL;
    }
    return Py_NewRef(search.result ? search.result : args[3]);
}
