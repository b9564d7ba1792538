/* Properties of tensors that only tell something about one (``shape``, ``grad``, …), read without asking our mode.
 *
 * torch asks the function mode about each reading of a property, which takes several microseconds, and an optimizer reads
 * hundreds in a step. While a capture runs, a Quiet lies over each such property in ``torch.Tensor``: where our own mode
 * is the only one that torch would ask, it reads and writes the property with the modes off.
 */
#ifndef TRUELINE_CALLS_QUIET_H
#define TRUELINE_CALLS_QUIET_H

#include "_calls_flatten.h"
#include "_calls_torch.h"

typedef struct {
    PyObject_HEAD
    PyObject *property, *mode;
    descrgetfunc get;
    descrsetfunc set;
} QuietProperty;

static int quiet_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((QuietProperty *)object)->property);
    Py_VISIT(((QuietProperty *)object)->mode);
    return 0;
}

static int quiet_clear(PyObject *object)
{
    Py_CLEAR(((QuietProperty *)object)->property);
    Py_CLEAR(((QuietProperty *)object)->mode);
    return 0;
}

static void quiet_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    quiet_clear(object);
    free_object(object);
}

static PyObject *quiet_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *property, *mode;
    if (!PyArg_ParseTuple(arguments, "OO:Quiet", &property, &mode) || (keywords && PyDict_Size(keywords)))
        return NULL;
    descrgetfunc get = PyType_GetSlot(Py_TYPE(property), Py_tp_descr_get);
    descrsetfunc set = PyType_GetSlot(Py_TYPE(property), Py_tp_descr_set);
    if (get == NULL || set == NULL || !have_doors()) {
        PyErr_SetString(PyExc_TypeError, "Quiet(property, mode), after open_doors()");
        return NULL;
    }
    QuietProperty *self = (QuietProperty *)new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->property = property);
    Py_INCREF(self->mode = mode);
    self->get = get;
    self->set = set;
    return (PyObject *)self;
}

/* Whether nobody but our mode would be asked about a property of this tensor. */
static int only_we_are_asked(const QuietProperty *self, PyObject *tensor)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor);
    return (kind == tensor_type || kind == parameter_type) && doors.disabled_state() == 0 && doors.mode_count() == 1 &&
           top_mode() == self->mode;
}

static PyObject *quiet_get(PyObject *object, PyObject *tensor, PyObject *type)
{
    QuietProperty *self = (QuietProperty *)object;
    if (tensor == NULL || tensor == Py_None) { /* torch itself finds the property here, by its name in the class */
        Py_INCREF(self->property);
        return self->property;
    }
    if (!only_we_are_asked(self, tensor))
        return self->get(self->property, tensor, type);
    doors.set_disabled_state(ALL_DISABLED);
    PyObject *value = self->get(self->property, tensor, type);
    doors.set_disabled_state(0);
    return value;
}

static int quiet_set(PyObject *object, PyObject *tensor, PyObject *value)
{
    QuietProperty *self = (QuietProperty *)object;
    if (!only_we_are_asked(self, tensor))
        return self->set(self->property, tensor, value);
    doors.set_disabled_state(ALL_DISABLED);
    int failed = self->set(self->property, tensor, value);
    doors.set_disabled_state(0);
    return failed;
}

static PyType_Slot QUIET_SLOTS[] = {
    {Py_tp_new, quiet_new},     {Py_tp_dealloc, quiet_dealloc},   {Py_tp_traverse, quiet_traverse},
    {Py_tp_clear, quiet_clear}, {Py_tp_descr_get, quiet_get},     {Py_tp_descr_set, quiet_set},
    {0, NULL},
};

static PyType_Spec QUIET_SPEC = {"trueline.frameworks.torch._calls.Quiet", sizeof(QuietProperty), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, QUIET_SLOTS};

#endif
