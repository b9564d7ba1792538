/* What a light watch holds in the place of the program's own tensors: another tensor for the same memory and version
 * counter. So the program's tensors die when it lets go of them, with their finalizers, weak references and graphs.
 * The twin of ``light_hold.py``.
 */
#ifndef TRUELINE_CALLS_LIGHT_HOLD_H
#define TRUELINE_CALLS_LIGHT_HOLD_H

#include "_calls_flatten.h"
#include "_look_api.h"

#define MOST_STAND_INS 16 /* that may be given once more */
#define MOST_SEARCHED 64  /* tensors of a call, among which the same ones are looked for */

static PyObject *N_is_leaf, *N_made_by, *N_make;
static PyObject *held_otherwise; /* of light_hold.py */

typedef struct {
    PyObject *look, *kernel_depth, *profiling; /* borrowed of the recorder */
    const LookApi *api;
    PyObject *recent[MOST_STAND_INS]; /* held */
    int wants[MOST_STAND_INS], next;
} Holding;

static void forget_stand_ins(Holding *self)
{
    for (int i = 0; i < MOST_STAND_INS; i++)
        Py_CLEAR(self->recent[i]);
}

/* Whether nobody would see how a stand-in is made: no mode of the program's for kernels, no profiler. -1 on errors. */
static int may_hold(const Holding *self)
{
    PyObject *asked[] = {self->kernel_depth, self->profiling};
    for (int i = 0; i < 2; i++) {
        PyObject *answer = PyObject_CallFunctionObjArgs(asked[i], NULL);
        int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (truth != 0)
            return truth < 0 ? -1 : 0;
    }
    return 1;
}

/* Notes at a stand-in that gradients are wanted of the other, and by which kind of node it was made. */
static int note_maker(PyObject *alias, PyObject *tensor, int made)
{
    PyObject *kind = Py_None;
    if (made) {
        PyObject *node = told(tensor, N_grad_fn);
        if (node == NULL)
            return -1;
        kind = (PyObject *)Py_TYPE(node);
        Py_DECREF(node); /* its type stays: that of a node of torch's is never given back, that of others has a class */
    }
    return PyObject_SetAttr(alias, N_made_by, kind);
}

static PyObject *new_stand_in(Holding *self, PyObject *tensor, int wants, int made)
{
    PyObject *alias = self->api->detached(self->look, tensor);
    if (alias == NULL || !self->api->is_alike(self->look, alias, tensor)) { /* a transform was at work */
        PyErr_Clear();
        Py_XDECREF(alias);
        Py_INCREF(tensor);
        return tensor;
    }
    if (wants && note_maker(alias, tensor, made) < 0) {
        Py_DECREF(alias);
        return NULL;
    }
    PyObject_GC_UnTrack(alias); /* it leads nowhere, and the program may count the tensors that it finds */
    PyObject *old = self->recent[self->next];
    Py_INCREF(self->recent[self->next] = alias);
    self->wants[self->next] = wants;
    self->next = (self->next + 1) % MOST_STAND_INS;
    Py_XDECREF(old);
    return alias;
}

/* What is held in the place of a tensor, which is the tensor itself where there can be no other: one that has a gradient
 * is asked for it. ``made`` is whether the call has made it. A new reference; NULL on errors. */
static PyObject *stand_in_for(Holding *self, PyObject *tensor, int made)
{
    int wants = 0, leaf = 1;
    if (!self->api->may_stand_in(self->look, tensor, &wants) && (PyObject *)Py_TYPE(tensor) != parameter_type)
        return PyObject_CallFunctionObjArgs(held_otherwise, tensor, made ? Py_True : Py_False, NULL);
    if ((PyObject *)Py_TYPE(tensor) == parameter_type || (wants && (leaf = told_truth(tensor, N_is_leaf)) != 0)) {
        if (leaf < 0)
            return NULL;
        Py_INCREF(tensor);
        return tensor;
    }
    for (int i = 0; i < MOST_STAND_INS && !made; i++)
        if (self->recent[i] != NULL && self->wants[i] == wants && self->api->is_alike(self->look, self->recent[i], tensor)) {
            Py_INCREF(self->recent[i]);
            return self->recent[i];
        }
    return new_stand_in(self, tensor, wants, made);
}

/* The same object among tensors; -1 where it is not, or where they are many. */
static Py_ssize_t same_among(const Leaves *leaves, Py_ssize_t count, const PyObject *tensor)
{
    for (Py_ssize_t i = 0; i < count && count <= MOST_SEARCHED; i++)
        if (leaves->at[i] == tensor)
            return i;
    return -1;
}

/* Finds what is held in the place of these tensors; those that are among ``earlier`` are held once. */
static int hold_leaves(Holding *self, const Leaves *leaves, const Leaves *earlier, const Leaves *earlier_held, Leaves *held)
{
    int may = may_hold(self);
    for (Py_ssize_t i = 0; i < leaves->count && may >= 0; i++) {
        PyObject *tensor = leaves->at[i], *found = NULL;
        Py_ssize_t before = earlier == NULL ? -1 : same_among(earlier, earlier->count, tensor);
        Py_ssize_t again = before >= 0 ? -1 : same_among(leaves, i, tensor);
        found = before >= 0 ? earlier_held->at[before] : again >= 0 ? held->at[again] : may ? NULL : tensor;
        Py_XINCREF(found);
        if (found == NULL && (found = stand_in_for(self, tensor, earlier != NULL)) == NULL)
            return -1;
        int failed = add_leaf(held, found) < 0;
        Py_DECREF(found);
        if (failed)
            return -1;
    }
    return may < 0 ? -1 : 0;
}

/* ---- values with stand-ins in them ---- */

typedef struct {
    const Leaves *leaves, *held;
    Py_ssize_t at;
} Exchange;

static PyObject *exchanged(Exchange *exchange, PyObject *value, int depth);

static PyObject *exchanged_leaf(Exchange *exchange, PyObject *tensor)
{
    while (exchange->at < exchange->leaves->count && exchange->leaves->at[exchange->at] != tensor)
        exchange->at++; /* some lie in objects that are held as they are */
    PyObject *found = exchange->at < exchange->leaves->count ? exchange->held->at[exchange->at++] : tensor;
    Py_INCREF(found);
    return found;
}

/* A tuple of another kind with these items: a named one, or what torch gives several results in. */
static PyObject *tuple_like(PyObject *value, PyObject *items)
{
    PyObject *kind = (PyObject *)Py_TYPE(value), *make = PyObject_GetAttr(kind, N_make), *found;
    if (make == NULL)
        PyErr_Clear();
    if (make == NULL && PyObject_HasAttrString(kind, "n_sequence_fields"))
        make = Py_NewRef(kind);
    found = make == NULL ? NULL : PyObject_CallFunctionObjArgs(make, items, NULL);
    Py_XDECREF(make);
    if (found == NULL || Py_TYPE(found) != Py_TYPE(value)) {
        PyErr_Clear();
        Py_XDECREF(found);
        found = Py_NewRef(value);
    }
    return found;
}

static PyObject *exchanged_items(Exchange *exchange, PyObject *value, int is_list, int depth)
{
    Py_ssize_t count = is_list ? PyList_Size(value) : PyTuple_Size(value);
    PyObject *items = is_list ? PyList_New(count) : PyTuple_New(count);
    int other = is_list; /* which the program may change later */
    for (Py_ssize_t i = 0; items != NULL && i < count; i++) {
        PyObject *old = is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
        PyObject *item = old == NULL ? NULL : exchanged(exchange, old, depth + 1);
        other |= item != old;
        if (item == NULL || (is_list ? PyList_SetItem(items, i, item) : PyTuple_SetItem(items, i, item)) < 0)
            Py_CLEAR(items);
    }
    PyObject *found = items;
    if (items != NULL && !other)
        found = Py_NewRef(value);
    else if (items != NULL && !is_list && !PyTuple_CheckExact(value))
        found = tuple_like(value, items);
    if (found != items)
        Py_XDECREF(items);
    return found;
}

/* A value with what is held in the place of its tensors; a new reference. */
static PyObject *exchanged(Exchange *exchange, PyObject *value, int depth)
{
    PyObject *kind = (PyObject *)Py_TYPE(value);
    if (kind == tensor_type || kind == parameter_type)
        return exchanged_leaf(exchange, value);
    if (depth < MOST_NESTED && (PyTuple_Check(value) || PyList_CheckExact(value)) && kind != size_type)
        return exchanged_items(exchange, value, PyList_CheckExact(value), depth);
    PyTypeObject *type = Py_TYPE(value);
    if (value == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
        type == &PyUnicode_Type || type == &PySlice_Type || kind == size_type || kind == dtype_type || kind == format_type)
        return Py_NewRef(value);
    if (!PyObject_TypeCheck(value, (PyTypeObject *)tensor_type))
        return PyObject_CallFunctionObjArgs(held_otherwise, value, Py_False, NULL);
    return exchanged_leaf(exchange, value); /* of a subclass */
}

static PyObject *exchanged_names(Exchange *exchange, PyObject *kwargs)
{
    PyObject *name, *value, *own = kwargs == Py_None ? Py_NewRef(kwargs) : PyDict_New();
    Py_ssize_t at = 0;
    while (own != NULL && kwargs != Py_None && PyDict_Next(kwargs, &at, &name, &value)) {
        PyObject *item = exchanged(exchange, value, 0);
        if (item == NULL || PyDict_SetItem(own, name, item) < 0)
            Py_CLEAR(own);
        Py_XDECREF(item);
    }
    return own;
}

#endif
