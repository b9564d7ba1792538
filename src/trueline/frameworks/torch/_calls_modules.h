/* Which module is running: what ``modules.ModuleWatch`` does where calls of modules are not recorded. */
#ifndef TRUELINE_CALLS_MODULES_H
#define TRUELINE_CALLS_MODULES_H

#include "_calls_common.h"
#include "_calls_stacks.h"

/* Objects of ``modules.ModuleWatch``, by the names under which the constructor takes them. */
#define MODULE_FIELDS(DO) DO(notebook) DO(state) DO(numbers) DO(enter) DO(finder) DO(none)

typedef struct {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    MODULE_FIELDS(DECLARE)
#undef DECLARE
    Py_ssize_t frames; /* from the one that calls the hooks to the one that called the module */
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
    static char *NAMES_OF[] = {"notebook", "state", "numbers", "enter", "finder", "none", "frames", "stacks_wanted", NULL};
    PyObject *notebook, *state, *numbers, *enter, *finder, *none;
    Py_ssize_t frames;
    int stacks_wanted;
    PyObject *module = PyType_GetModule(type);
    if (module == NULL ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO!OOOnp:Modules", NAMES_OF, &notebook, &state, &PyDict_Type,
                                     &numbers, &enter, &finder, &none, &frames, &stacks_wanted))
        return NULL;
    if (PyType_GetSlot(Py_TYPE(finder), Py_tp_new) != (void *)finder_new) {
        PyErr_SetString(PyExc_TypeError, "Modules is given a Finder");
        return NULL;
    }
    Modules *self = (Modules *)new_object(type);
    if (self == NULL)
        return NULL;
    PyObject *values[] = {notebook, state, numbers, enter, finder, none};
    PyObject **fields[] = {&self->notebook, &self->state, &self->numbers, &self->enter, &self->finder, &self->none};
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

static int begin_module(Modules *self, PyObject *module)
{
    PyObject *modules = PyObject_GetAttr(self->state, N_modules), *stack = NULL, *number = NULL, *row = NULL;
    if (modules == NULL)
        return -1;
    Py_ssize_t count = PyList_Size(modules);
    PyObject *above = count > 0 ? PyTuple_GetItem(PyList_GetItem(modules, count - 1), 1) : self->none;
    if (above != NULL) {
        Py_INCREF(above);
        if (self->stacks_wanted)
            stack = find_stack((Finder *)self->finder, self->frames, above);
        else
            Py_INCREF(stack = self->none);
        Py_DECREF(above);
    }
    if (stack != NULL)
        number = module_number(self, module);
    if (number != NULL)
        row = PyTuple_Pack(3, number, stack, module);
    int failed = row == NULL || PyList_Append(modules, row) < 0;
    Py_XDECREF(row);
    Py_XDECREF(number);
    Py_XDECREF(stack);
    Py_DECREF(modules);
    return failed ? -1 : 0;
}

/* A module that raised without our hearing of it is left behind: it is dropped with the one that ends. */
static int end_module(Modules *self, PyObject *module)
{
    PyObject *modules = PyObject_GetAttr(self->state, N_modules);
    if (modules == NULL)
        return -1;
    int failed = 0, found = 0;
    for (Py_ssize_t last = PyList_Size(modules) - 1; last >= 0 && !found && !failed; last--) {
        found = PyTuple_GetItem(PyList_GetItem(modules, last), 2) == module;
        failed = PyErr_Occurred() || PyList_SetSlice(modules, last, last + 1, NULL) < 0;
    }
    Py_DECREF(modules);
    return failed ? -1 : 0;
}

static PyObject *modules_before(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Modules *self = (Modules *)object;
    if (count > 0 && begin_module(self, arguments[0]) < 0 && report_trouble(self->notebook) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *modules_after(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Modules *self = (Modules *)object;
    if (count > 0 && end_module(self, arguments[0]) < 0 && report_trouble(self->notebook) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef MODULES_METHODS[] = {
    {"before", (PyCFunction)(void (*)(void))modules_before, METH_FASTCALL, "before(module, args): a module begins"},
    {"after", (PyCFunction)(void (*)(void))modules_after, METH_FASTCALL, "after(module, args, output): a module ends"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot MODULES_SLOTS[] = {
    {Py_tp_new, modules_new},     {Py_tp_dealloc, modules_dealloc},   {Py_tp_traverse, modules_traverse},
    {Py_tp_clear, modules_clear}, {Py_tp_methods, MODULES_METHODS},   {0, NULL},
};

static PyType_Spec MODULES_SPEC = {"trueline.frameworks.torch._calls.Modules", sizeof(Modules), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, MODULES_SLOTS};

#endif
