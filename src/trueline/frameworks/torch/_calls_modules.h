/* Which module is running: what ``modules.ModuleWatch`` does where calls of modules are not recorded. */
#ifndef TRUELINE_CALLS_MODULES_H
#define TRUELINE_CALLS_MODULES_H

#include "_calls_common.h"
#include "_calls_stacks.h"
#include "_calls_threads.h"

/* Objects of ``modules.ModuleWatch``, by the names under which the constructor takes them. */
#define MODULE_FIELDS(DO) DO(notebook) DO(threads) DO(numbers) DO(enter) DO(outermost) DO(finder)

typedef struct {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    MODULE_FIELDS(DECLARE)
#undef DECLARE
    Py_ssize_t frames; /* from the one that calls ``around`` to the one that called the module */
    int stacks_wanted;
} Modules;

static int modules_traverse(PyObject *object, visitproc visit, void *arg)
{
    Modules *self = (Modules *)object;
    Py_VISIT(Py_TYPE(object));
#define VISIT(name) Py_VISIT(self->name);
    MODULE_FIELDS(VISIT)
#undef VISIT
    return 0;
}

static int modules_clear(PyObject *object)
{
    Modules *self = (Modules *)object;
#define CLEAR(name) Py_CLEAR(self->name);
    MODULE_FIELDS(CLEAR)
#undef CLEAR
    return 0;
}

static void modules_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    modules_clear(object);
    free_object(object);
}

static PyObject *modules_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *NAMES_OF[] = {"notebook", "threads", "numbers", "enter", "outermost",
                               "finder", "frames", "stacks_wanted", NULL};
    PyObject *notebook, *threads, *numbers, *enter, *outermost, *finder;
    Py_ssize_t frames;
    int stacks_wanted;
    PyObject *module = PyType_GetModule(type);
    if (module == NULL ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO!OOOnp:Modules", NAMES_OF, &notebook, &threads,
                                     &PyDict_Type, &numbers, &enter, &outermost, &finder, &frames, &stacks_wanted))
        return NULL;
    if (PyType_GetSlot(Py_TYPE(finder), Py_tp_new) != (void *)finder_new ||
        PyType_GetSlot(Py_TYPE(threads), Py_tp_new) != (void *)threads_new) {
        PyErr_SetString(PyExc_TypeError, "Modules is given a Finder and Threads");
        return NULL;
    }
    Modules *self = (Modules *)new_object(type);
    if (self == NULL)
        return NULL;
    PyObject *values[] = {notebook, threads, numbers, enter, outermost, finder};
    PyObject **fields[] = {&self->notebook, &self->threads, &self->numbers, &self->enter,
                           &self->outermost, &self->finder};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        Py_INCREF(values[i]);
        *fields[i] = values[i];
    }
    self->frames = frames;
    self->stacks_wanted = stacks_wanted;
    return (PyObject *)self;
}

/* A new reference to the number of a module. */
static PyObject *module_number(Modules *self, PyObject *module)
{
    PyObject *key = PyLong_FromVoidPtr(module);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(self->numbers, key); /* (weak reference, number) */
    Py_XDECREF(key);
    if (known != NULL && PyTuple_Check(known) && PyTuple_Size(known) == 2) {
        PyObject *alive = PyWeakref_GetObject(PyTuple_GetItem(known, 0));
        if (alive == module) { /* its address may have been that of another one */
            PyObject *number = PyTuple_GetItem(known, 1);
            Py_INCREF(number);
            return number;
        }
    }
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(self->enter, module, NULL);
}

/* The module that is running in a thread and the stack at its call, -1 for both where there is none; -1 on errors. */
static int innermost(const Thread *thread, int64_t *module, int64_t *stack)
{
    Py_ssize_t count = PyList_Size(thread->modules);
    PyObject *last = count > 0 ? PyList_GetItem(thread->modules, count - 1) : NULL;
    *module = last == NULL ? -1 : PyLong_AsLongLong(PyTuple_GetItem(last, 0));
    *stack = last == NULL ? -1 : PyLong_AsLongLong(PyTuple_GetItem(last, 1));
    return last != NULL && PyErr_Occurred() ? -1 : 0;
}

static int begin_module(Modules *self, PyObject *module)
{
    Thread *thread = this_thread((Threads *)self->threads);
    int64_t outer, above, stack = -1;
    if (thread == NULL || innermost(thread, &outer, &above) < 0)
        return -1;
    if (self->stacks_wanted)
        stack = find_stack((Finder *)self->finder, self->frames, above);
    if (stack == -1 && PyErr_Occurred())
        return -1;
    PyObject *number = module_number(self, module);
    PyObject *row = number == NULL ? NULL : Py_BuildValue("OLO", number, (long long)stack, module);
    int failed = row == NULL || PyList_Append(thread->modules, row) < 0;
    Py_XDECREF(row);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* A module that raised without our hearing of it is left behind: it is dropped with the one that ends. */
static int end_module(Modules *self, PyObject *module)
{
    Thread *thread = this_thread((Threads *)self->threads);
    if (thread == NULL)
        return -1;
    PyObject *modules = thread->modules;
    int failed = 0, found = 0;
    for (Py_ssize_t last = PyList_Size(modules) - 1; last >= 0 && !found && !failed; last--) {
        found = PyTuple_GetItem(PyList_GetItem(modules, last), 2) == module;
        failed = PyErr_Occurred() || PyList_SetSlice(modules, last, last + 1, NULL) < 0;
    }
    return failed ? -1 : 0;
}

/* Whether no module runs on this thread and somebody wants to know; -1 on errors. Optimizers, which have rows too, have
 * no module. */
static int is_outermost(Modules *self)
{
    if (self->outermost == Py_None)
        return 0;
    Thread *thread = this_thread((Threads *)self->threads);
    if (thread == NULL)
        return -1;
    for (Py_ssize_t place = PyList_Size(thread->modules) - 1; place >= 0; place--)
        if (PyTuple_GetItem(PyList_GetItem(thread->modules, place), 2) != Py_None)
            return PyErr_Occurred() ? -1 : 0;
    return 1;
}

/* Makes the call of a module; what it raises passes through. */
static PyObject *modules_around(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Modules *self = (Modules *)object;
    if (count != 3 || !PyTuple_Check(arguments[1]) || !PyDict_Check(arguments[2]) || PyTuple_Size(arguments[1]) < 1) {
        PyErr_SetString(PyExc_TypeError, "around(call, args, kwargs): the first argument is the module");
        return NULL;
    }
    int outermost = is_outermost(self);
    if (outermost < 0 && report_trouble(self->notebook) < 0)
        return NULL;
    if (outermost > 0)
        return PyObject_CallFunctionObjArgs(self->outermost, arguments[0], arguments[1], arguments[2], NULL);
    PyObject *type, *value, *traceback, *module = PyTuple_GetItem(arguments[1], 0);
    if (begin_module(self, module) < 0 && report_trouble(self->notebook) < 0)
        return NULL;
    PyObject *result = PyObject_Call(arguments[0], arguments[1], arguments[2]);
    PyErr_Fetch(&type, &value, &traceback);
    int failed = end_module(self, module) < 0 && report_trouble(self->notebook) < 0;
    if (type != NULL)
        PyErr_Restore(type, value, traceback);
    if (failed)
        Py_CLEAR(result);
    return result;
}

static PyMethodDef MODULES_METHODS[] = {
    {"around", (PyCFunction)(void (*)(void))modules_around, METH_FASTCALL,
     "around(call, args, kwargs): makes the call of a module"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot MODULES_SLOTS[] = {
    {Py_tp_new, modules_new},     {Py_tp_dealloc, modules_dealloc},   {Py_tp_traverse, modules_traverse},
    {Py_tp_clear, modules_clear}, {Py_tp_methods, MODULES_METHODS},   {0, NULL},
};

static PyType_Spec MODULES_SPEC = {"trueline.frameworks.torch._calls.Modules", sizeof(Modules), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, MODULES_SLOTS};

#endif
