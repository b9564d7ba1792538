/* What each thread is in the middle of: what ``opencalls.ThreadState`` is, found faster. */
#ifndef TRUELINE_CALLS_THREADS_H
#define TRUELINE_CALLS_THREADS_H

#include "_calls_common.h"

typedef struct Thread {
    struct Thread *next;
    uint64_t id;       /* which the interpreter gives to no other thread */
    PyObject *modules; /* see ThreadState */
    long long optimizer, number, open, functions, region, in_collective;
} Thread;

typedef struct {
    PyObject_HEAD
    PyObject *number_of;
    Thread *threads, *last;
    long long none;
} Threads;

static int threads_traverse(PyObject *object, visitproc visit, void *arg)
{
    Threads *self = (Threads *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->number_of);
    for (Thread *thread = self->threads; thread != NULL; thread = thread->next)
        Py_VISIT(thread->modules);
    return 0;
}

static int threads_clear(PyObject *object)
{
    Threads *self = (Threads *)object;
    Py_CLEAR(self->number_of);
    for (Thread *thread = self->threads; thread != NULL; thread = thread->next)
        Py_CLEAR(thread->modules);
    return 0;
}

static void threads_dealloc(PyObject *object)
{
    Threads *self = (Threads *)object;
    PyObject_GC_UnTrack(object);
    threads_clear(object);
    while (self->threads != NULL) {
        Thread *gone = self->threads;
        self->threads = gone->next;
        free(gone);
    }
    free_object(object);
}

static PyObject *threads_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *number_of;
    long long none;
    if (!PyArg_ParseTuple(arguments, "OL:Threads", &number_of, &none) || (keywords && PyDict_Size(keywords)))
        return NULL;
    Threads *self = (Threads *)new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->number_of = number_of);
    self->none = none;
    return (PyObject *)self;
}

static Thread *begin_thread(Threads *self, uint64_t id)
{
    long long number = ask_integer(self->number_of);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    Thread *thread = calloc(1, sizeof *thread);
    PyObject *modules = PyList_New(0);
    if (thread == NULL || modules == NULL) {
        free(thread);
        Py_XDECREF(modules);
        PyErr_NoMemory();
        return NULL;
    }
    thread->id = id;
    thread->modules = modules;
    thread->number = number;
    thread->optimizer = self->none;
    thread->next = self->threads;
    return self->last = self->threads = thread;
}

/* What is known of the running thread; NULL on errors. */
static Thread *this_thread(Threads *self)
{
    uint64_t id = PyThreadState_GetID(PyThreadState_Get());
    if (self->last != NULL && self->last->id == id)
        return self->last;
    for (Thread *thread = self->threads; thread != NULL; thread = thread->next)
        if (thread->id == id)
            return self->last = thread;
    return begin_thread(self, id);
}

/* The field of that name, NULL where there is none. */
static long long *field_of(Thread *thread, PyObject *name)
{
    PyObject *names[] = {N_optimizer, N_number, N_open, N_functions, N_region, N_in_collective};
    long long *fields[] = {&thread->optimizer, &thread->number, &thread->open,
                           &thread->functions, &thread->region, &thread->in_collective};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] == name || PyUnicode_Compare(names[i], name) == 0)
            return fields[i];
    return NULL;
}

static PyObject *threads_get(PyObject *self, PyObject *name)
{
    Thread *thread = this_thread((Threads *)self);
    if (thread == NULL)
        return NULL;
    if (name == N_modules || PyUnicode_Compare(name, N_modules) == 0) {
        Py_INCREF(thread->modules);
        return thread->modules;
    }
    long long *field = field_of(thread, name);
    return field != NULL ? PyLong_FromLongLong(*field) : PyObject_GenericGetAttr(self, name);
}

static int threads_set(PyObject *self, PyObject *name, PyObject *value)
{
    Thread *thread = this_thread((Threads *)self);
    if (thread == NULL)
        return -1;
    long long *field = value == NULL ? NULL : field_of(thread, name);
    if (field == NULL)
        return PyObject_GenericSetAttr(self, name, value);
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return -1;
    *field = number;
    return 0;
}

static PyType_Slot THREADS_SLOTS[] = {
    {Py_tp_new, threads_new},         {Py_tp_dealloc, threads_dealloc}, {Py_tp_traverse, threads_traverse},
    {Py_tp_clear, threads_clear},     {Py_tp_getattro, threads_get},    {Py_tp_setattro, threads_set},
    {0, NULL},
};

static PyType_Spec THREADS_SPEC = {"trueline.frameworks.torch._calls.Threads", sizeof(Threads), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, THREADS_SLOTS};

#endif
