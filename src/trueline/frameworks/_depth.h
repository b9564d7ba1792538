/* How many frames a thread may still enter before Python raises RecursionError: the word of the thread's state in which
 * that is counted, found and tried out by ``depth.py``. What is taken here was given before, so that the count is whole
 * whoever changes it in between. */
#ifndef TRUELINE_DEPTH_H
#define TRUELINE_DEPTH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

/* From Python 3.12 on calls that take of C's stack are on a count of their own. Numbers of frames here have both: so many
 * frames, and so many times DEPTH_C. */
#define DEPTH_C (1LL << 32)

enum { DEPTH_MOST = 200 }; /* depth.ROOM */

static struct {
    Py_ssize_t offset; /* in bytes; 0 where nothing was found */
    int sign;          /* -1 where frames are counted up instead of down */
    int c_call;        /* what the call of a C function counts for, where all are on one count */
    Py_ssize_t c_offset;
    int into_python; /* what the call of a Python function from C takes of C's stack, and one from Python does not */
} depth_place = {0, 1, 0, 0, 0};

static PyTypeObject *depth_function_type = &PyBool_Type; /* of functions that are written in Python, when it is known */

static inline int *depth_count(Py_ssize_t offset)
{
    return (int *)((char *)PyThreadState_Get() + offset);
}

static inline int depth_frames_in(long long number)
{
    return (int)(unsigned int)(number & 0xffffffffLL);
}

static inline int depth_c_in(long long number)
{
    return (int)((number - depth_frames_in(number)) / DEPTH_C);
}

/* So many frames are left; larger is more, where zero lies depends on the version of Python. */
static inline long long depth_left(void)
{
    long long left = depth_place.offset ? (long long)depth_place.sign * *depth_count(depth_place.offset) : 0;
    return depth_place.c_offset ? left + DEPTH_C * *depth_count(depth_place.c_offset) : left;
}

static inline void depth_give(long long number)
{
    if (depth_place.offset)
        *depth_count(depth_place.offset) += depth_place.sign * depth_frames_in(number);
    if (depth_place.c_offset)
        *depth_count(depth_place.c_offset) += depth_c_in(number);
}

/* What the call of a C function counts for. */
static inline long long depth_c_call(void)
{
    return depth_place.c_offset ? DEPTH_C : depth_place.c_call;
}

/* Gives our own work room. */
static inline void depth_begin_room(void)
{
    depth_give(DEPTH_MOST + DEPTH_C * DEPTH_MOST);
}

static inline void depth_end_room(void)
{
    depth_give(-(DEPTH_MOST + DEPTH_C * DEPTH_MOST));
}

static inline int depth_within(int given)
{
    return given > 2 * DEPTH_MOST || given < -2 * DEPTH_MOST ? 0 : given; /* another stack than that on which it was asked */
}

/* Calls a function as from where ``left`` frames were left. Between two such calls lies a frame of the program's, so there
 * are never more of them in one another than frames are allowed: if there are, we call ourselves, and must come to an end. */
static inline PyObject *depth_call(long long left, PyObject *function, PyObject *args, PyObject *kwargs)
{
    static __thread int calls;
    long long missing = calls > Py_GetRecursionLimit() ? 0 : left - depth_left();
    int frames = depth_within(depth_frames_in(missing)), c = depth_within(depth_c_in(missing));
    if (PyObject_TypeCheck(function, depth_function_type))
        c += depth_place.into_python;
    long long given = frames + DEPTH_C * c;
    depth_give(given);
    calls++;
    PyObject *result = PyObject_Call(function, args, kwargs);
    calls--;
    depth_give(-given);
    return result;
}

static inline int depth_take_place(PyObject *arguments)
{
    return PyArg_ParseTuple(arguments, "niiniO!:place", &depth_place.offset, &depth_place.sign, &depth_place.c_call,
                            &depth_place.c_offset, &depth_place.into_python, &PyType_Type, &depth_function_type)
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
