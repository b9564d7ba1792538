/* What torch knows of the running thread, asked without Python where ``calls.py`` found the way and checked it. */
#ifndef TRUELINE_CALLS_TORCH_H
#define TRUELINE_CALLS_TORCH_H

#include "_calls_common.h"

enum { ALL_DISABLED = 2 }; /* at::impl::TorchFunctionDisabledState */

/* Functions of torch's libraries; all of them, or none. */
static struct {
    uint64_t (*next_sequence)(void);
    int (*graph_task)(void);
    _Bool (*grad_enabled)(void);
    int (*disabled_state)(void);
    void (*set_disabled_state)(int);
    int64_t (*mode_count)(void);
    void ***(*mode_at)(int64_t position); /* a shared pointer to something that begins with the mode */
} doors;

static int have_doors(void)
{
    return doors.mode_at != NULL;
}

/* The topmost function mode of this thread; borrowed, NULL where there is none. */
static PyObject *top_mode(void)
{
    int64_t count = doors.mode_count();
    return count > 0 ? (PyObject *)**doors.mode_at(count - 1) : NULL;
}

/* As ``with DisableTorchFunction():`` between both. */
typedef struct {
    int before;
    PyObject *guard; /* NULL where torch was told directly */
} Quiet;

static int begin_quiet(Quiet *quiet, PyObject *no_torch_function)
{
    quiet->guard = NULL;
    quiet->before = 0;
    if (have_doors()) {
        quiet->before = doors.disabled_state();
        doors.set_disabled_state(ALL_DISABLED);
        return 0;
    }
    quiet->guard = PyObject_CallFunctionObjArgs(no_torch_function, NULL);
    PyObject *entered = quiet->guard == NULL ? NULL : PyObject_CallMethodObjArgs(quiet->guard, N___enter__, NULL);
    if (entered == NULL)
        Py_CLEAR(quiet->guard);
    Py_XDECREF(entered);
    return entered == NULL ? -1 : 0;
}

/* An error that is set stays. */
static int end_quiet(Quiet *quiet)
{
    if (quiet->guard == NULL) {
        doors.set_disabled_state(quiet->before);
        return 0;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *left = PyObject_CallMethodObjArgs(quiet->guard, N___exit__, Py_None, Py_None, Py_None, NULL);
    if (type != NULL)
        PyErr_Restore(type, value, traceback);
    Py_CLEAR(quiet->guard);
    Py_XDECREF(left);
    return left == NULL ? -1 : 0;
}

static PyObject *open_doors(PyObject *module, PyObject *arguments)
{
    unsigned long long at[7];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKKKK:open_doors", &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6]))
        return NULL;
    doors.next_sequence = (uint64_t (*)(void))(uintptr_t)at[0];
    doors.graph_task = (int (*)(void))(uintptr_t)at[1];
    doors.grad_enabled = (_Bool (*)(void))(uintptr_t)at[2];
    doors.disabled_state = (int (*)(void))(uintptr_t)at[3];
    doors.set_disabled_state = (void (*)(int))(uintptr_t)at[4];
    doors.mode_count = (int64_t (*)(void))(uintptr_t)at[5];
    doors.mode_at = (void ***(*)(int64_t))(uintptr_t)at[6];
    Py_RETURN_NONE;
}

/* What the doors say, for ``calls.py`` to compare with what torch says in Python; ``quiet`` is the state in between. */
static PyObject *ask_doors(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!have_doors())
        Py_RETURN_NONE;
    int state = doors.disabled_state();
    doors.set_disabled_state(ALL_DISABLED);
    int quiet = doors.disabled_state();
    doors.set_disabled_state(state);
    return Py_BuildValue("KiiiiLK", (unsigned long long)doors.next_sequence(), doors.graph_task(),
                         (int)doors.grad_enabled(), state, quiet, (long long)doors.mode_count(),
                         (unsigned long long)(uintptr_t)top_mode());
}

#endif
