/* Versions of dicts. Up to 3.13 each dict has one; from 3.14 on (PEP 699) CPython tells of changes to those that are
   watched. A dict is watched from the time that its version is asked for to its next change, which takes the version. */
#include "onegraph.h"

#if PY_VERSION_HEX < 0x030e0000

uint64_t dict_version(PyObject *dict)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return ((PyDictObject *)dict)->ma_version_tag; /* in its low bits, Python 3.12 tells who watches it */
#pragma GCC diagnostic pop
}

#else

#define Py_BUILD_CORE
#include <internal/pycore_hashtable.h>
#undef Py_BUILD_CORE

_Static_assert(sizeof(void *) >= sizeof(uint64_t), "a version is kept in the place of a pointer");

static _Py_hashtable_t *versions; /* by the address of the dict, as long as it is watched */
static int watcher = -1;          /* -1: none has been free */
static uint64_t last_version;

static int on_change(PyDict_WatchEvent UNUSED(event), PyObject *dict, PyObject *UNUSED(key), PyObject *UNUSED(value))
{
    _Py_hashtable_steal(versions, dict);
    return PyDict_Unwatch(watcher, dict);
}

static bool can_watch(void)
{
    static bool tried;
    if (!tried) {
        tried = true;
        versions = _Py_hashtable_new(_Py_hashtable_hash_ptr, _Py_hashtable_compare_direct);
        watcher = versions == NULL ? -1 : PyDict_AddWatcher(on_change);
        if (watcher < 0) {
            PyErr_Clear();
        }
    }
    return watcher >= 0;
}

uint64_t dict_version(PyObject *dict)
{
    if (!can_watch()) {
        return 0;
    }
    uint64_t version = (uint64_t)_Py_hashtable_get(versions, dict);
    if (version == 0) {
        if (_Py_hashtable_set(versions, dict, (void *)(last_version + 1)) < 0) {
            return 0;
        }
        version = ++last_version;
        PyDict_Watch(watcher, dict); /* fails for what is no dict only */
    }
    return version;
}

#endif
