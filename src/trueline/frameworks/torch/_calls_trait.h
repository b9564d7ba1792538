/* How one function of torch is treated: what ``names.Trait`` is, read without asking for attributes. */
#ifndef TRUELINE_CALLS_TRAIT_H
#define TRUELINE_CALLS_TRAIT_H

#include "_calls_common.h"

enum { RECORD, SKIP }; /* names.RECORD, names.SKIP */

typedef struct {
    PyObject_HEAD
    PyObject *name, *hidden; /* see names.Trait */
    long long treatment, in_place, name_id, count, step;
    char mutates, hides_all, first_only, wanted;
} Trait;

static PyTypeObject *trait_type; /* held as long as the process lives */

static void trait_dealloc(PyObject *object)
{
    Py_XDECREF(((Trait *)object)->name);
    Py_XDECREF(((Trait *)object)->hidden);
    free_object(object);
}

static int copy_trait(Trait *self, PyObject *from)
{
    const char *numbers[] = {"treatment", "in_place", "name_id", "count", "step"};
    long long *fields[] = {&self->treatment, &self->in_place, &self->name_id, &self->count, &self->step};
    const char *truths[] = {"mutates", "hides_all", "first_only", "wanted"};
    char *flags[] = {&self->mutates, &self->hides_all, &self->first_only, &self->wanted};
    self->name = PyObject_GetAttrString(from, "name");
    self->hidden = PyObject_GetAttrString(from, "hidden");
    if (self->name == NULL || self->hidden == NULL || !PyTuple_Check(self->hidden))
        return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        PyObject *value = PyObject_GetAttrString(from, numbers[i]);
        *fields[i] = value == NULL ? -1 : PyLong_AsLongLong(value);
        Py_XDECREF(value);
    }
    for (size_t i = 0; i < sizeof truths / sizeof *truths && !PyErr_Occurred(); i++) {
        PyObject *value = PyObject_GetAttrString(from, truths[i]);
        *flags[i] = value != NULL && PyObject_IsTrue(value) > 0;
        Py_XDECREF(value);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *trait_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *from;
    if (!PyArg_ParseTuple(arguments, "O:Trait", &from) || (keywords && PyDict_Size(keywords)))
        return NULL;
    Trait *self = (Trait *)new_object(type);
    if (self != NULL && copy_trait(self, from) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Trait(trait), with a names.Trait");
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyMemberDef TRAIT_MEMBERS[] = {
    {"name", T_OBJECT_EX, offsetof(Trait, name), READONLY, NULL},
    {"hidden", T_OBJECT_EX, offsetof(Trait, hidden), READONLY, NULL},
    {"treatment", T_LONGLONG, offsetof(Trait, treatment), READONLY, NULL},
    {"in_place", T_LONGLONG, offsetof(Trait, in_place), READONLY, NULL},
    {"name_id", T_LONGLONG, offsetof(Trait, name_id), READONLY, NULL},
    {"count", T_LONGLONG, offsetof(Trait, count), 0, NULL},
    {"step", T_LONGLONG, offsetof(Trait, step), 0, NULL},
    {"mutates", T_BOOL, offsetof(Trait, mutates), READONLY, NULL},
    {"hides_all", T_BOOL, offsetof(Trait, hides_all), READONLY, NULL},
    {"first_only", T_BOOL, offsetof(Trait, first_only), READONLY, NULL},
    {"wanted", T_BOOL, offsetof(Trait, wanted), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot TRAIT_SLOTS[] = {
    {Py_tp_new, trait_new}, {Py_tp_dealloc, trait_dealloc}, {Py_tp_members, TRAIT_MEMBERS}, {0, NULL},
};

static PyType_Spec TRAIT_SPEC = {"trueline.frameworks.torch._calls.Trait", sizeof(Trait), 0, Py_TPFLAGS_DEFAULT,
                                 TRAIT_SLOTS};

/* Whether a named argument asks for a change of something; -1 on errors. */
static int named_change(PyObject *kwargs)
{
    if (kwargs == Py_None || PyDict_Size(kwargs) == 0)
        return 0;
    PyObject *out = PyDict_GetItemWithError(kwargs, N_out);
    if (out != NULL && out != Py_None)
        return 1;
    PyObject *in_place = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(kwargs, N_inplace);
    return PyErr_Occurred() ? -1 : in_place != NULL ? PyObject_IsTrue(in_place) : 0;
}

/* As names.may_change; -1 on errors. */
static int may_change(const Trait *trait, PyObject *args, PyObject *kwargs)
{
    if (trait->mutates)
        return 1;
    int in_place = 0;
    if (trait->in_place > 0 && trait->in_place < PyTuple_Size(args))
        in_place = PyObject_IsTrue(PyTuple_GetItem(args, (Py_ssize_t)trait->in_place));
    return in_place ? in_place : named_change(kwargs);
}

#endif
