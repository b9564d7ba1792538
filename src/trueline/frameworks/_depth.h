/* How many frames a thread may still enter before Python raises RecursionError: the word of the thread's state in which
 * that is counted, found and tried out by ``depth.py``. What is taken here was given before, so that the count is whole
 * whoever changes it in between. */
#ifndef TRUELINE_DEPTH_H
#define TRUELINE_DEPTH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

enum { DEPTH_ROOM = 200 }; /* depth.ROOM */

static struct {
    Py_ssize_t offset; /* in bytes; 0 where nothing was found */
    int sign;          /* -1 where frames are counted up instead of down */
    int c_call;        /* what the call of a C function counts for */
} depth_place = {0, 1, 0};

static inline int *depth_count(void)
{
    return (int *)((char *)PyThreadState_Get() + depth_place.offset);
}

/* So many frames are left; larger is more, where zero lies depends on the version of Python. */
static inline long long depth_left(void)
{
    return depth_place.offset ? (long long)depth_place.sign * *depth_count() : 0;
}

static inline void depth_give(long long frames)
{
    if (depth_place.offset)
        *depth_count() += depth_place.sign * (int)frames;
}

/* Gives what makes ``left`` frames be left, and says how many that were. */
static inline long long depth_return_to(long long left)
{
    long long given = left - depth_left();
    if (given < -2 * DEPTH_ROOM || given > 2 * DEPTH_ROOM) /* another stack than the one on which it was asked */
        given = 0;
    depth_give(given);
    return given;
}

/* Calls a function as from where ``left`` frames were left. */
static inline PyObject *depth_call(long long left, PyObject *function, PyObject *args, PyObject *kwargs)
{
    long long given = depth_return_to(left);
    PyObject *result = PyObject_Call(function, args, kwargs);
    depth_give(-given);
    return result;
}

static inline int depth_take_place(PyObject *arguments)
{
    return PyArg_ParseTuple(arguments, "nii:offset, sign, c_call", &depth_place.offset, &depth_place.sign,
                            &depth_place.c_call)
               ? 0
               : -1;
}

/* How others call an object without that Python counts it, also where calls of C functions are counted. */
typedef PyObject *(*Vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

#define HAS_VECTORCALL (1UL << 11) /* Py_TPFLAGS_HAVE_VECTORCALL, named in the stable interface since Python 3.12 only */
#define COUNT_OF(flags) ((Py_ssize_t)((flags) & (SIZE_MAX >> 1)))
#define VECTORCALL_OF(type) {"__vectorcalloffset__", T_PYSSIZET, offsetof(type, vectorcall), READONLY, NULL}

/* A function that is called as from where a door was met. */
typedef struct {
    PyObject_HEAD
    PyObject *function;
    long long left;
} Called;

#endif
