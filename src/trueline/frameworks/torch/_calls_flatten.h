/* What ``flatten.flatten`` does: the same keys, the same tensors in the same order. */
#ifndef TRUELINE_CALLS_FLATTEN_H
#define TRUELINE_CALLS_FLATTEN_H

#include "_calls_common.h"

/* Held as long as the process lives, as torch is. */
static PyObject *tensor_type, *parameter_type, *tensor_key, *flatten_other, *ordered_dict, *register_hook;

static PyObject *flatten(PyObject *value, PyObject *leaves);

static PyObject *flatten_items(PyObject *value, PyTypeObject *kind, PyObject *leaves)
{
    int is_tuple = kind == &PyTuple_Type;
    Py_ssize_t count = is_tuple ? PyTuple_Size(value) : PyList_Size(value);
    PyObject *keys = PyTuple_New(count);
    for (Py_ssize_t i = 0; keys != NULL && i < count; i++) {
        PyObject *item = is_tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i);
        Py_XINCREF(item);
        PyObject *key = item == NULL ? NULL : flatten(item, leaves);
        Py_XDECREF(item);
        if (key == NULL)
            Py_CLEAR(keys);
        else
            PyTuple_SetItem(keys, i, key);
    }
    return keys;
}

static PyObject *flatten(PyObject *value, PyObject *leaves)
{
    PyTypeObject *kind = Py_TYPE(value);
    if ((PyObject *)kind == tensor_type || (PyObject *)kind == parameter_type) {
        if (PyList_Append(leaves, value) < 0)
            return NULL;
        Py_INCREF(tensor_key);
        return tensor_key;
    }
    if (kind == &PyLong_Type || kind == &PyFloat_Type || kind == &PyBool_Type || kind == &PyUnicode_Type ||
        value == Py_None)
        return PyTuple_Pack(2, (PyObject *)kind, value);
    if (kind != &PyTuple_Type && kind != &PyList_Type)
        return PyObject_CallFunctionObjArgs(flatten_other, value, (PyObject *)kind, leaves, NULL);
    if (Py_EnterRecursiveCall(" in the arguments of a call"))
        return NULL;
    PyObject *items = flatten_items(value, kind, leaves), *key = NULL;
    Py_LeaveRecursiveCall();
    if (items != NULL)
        key = PyTuple_Pack(2, (PyObject *)kind, items);
    Py_XDECREF(items);
    return key;
}

/* The keys of named arguments: ((name, key), …). */
static PyObject *flatten_named(PyObject *arguments, PyObject *leaves)
{
    PyObject *items = PyMapping_Items(arguments);
    Py_ssize_t count = items == NULL ? 0 : PyList_Size(items);
    PyObject *keys = items == NULL ? NULL : PyTuple_New(count);
    for (Py_ssize_t i = 0; keys != NULL && i < count; i++) {
        PyObject *item = PyList_GetItem(items, i);
        PyObject *key = flatten(PyTuple_GetItem(item, 1), leaves);
        PyObject *pair = key == NULL ? NULL : PyTuple_Pack(2, PyTuple_GetItem(item, 0), key);
        Py_XDECREF(key);
        if (pair == NULL)
            Py_CLEAR(keys);
        else
            PyTuple_SetItem(keys, i, pair);
    }
    Py_XDECREF(items);
    return keys;
}

/* The key of all arguments of a call: (keys, named keys or None). */
static PyObject *flatten_arguments(PyObject *args, PyObject *kwargs, PyObject *leaves)
{
    PyObject *key = NULL, *named = NULL, *keys = flatten_items(args, &PyTuple_Type, leaves);
    if (keys != NULL && kwargs != Py_None && PyDict_Size(kwargs) > 0) {
        named = flatten_named(kwargs, leaves);
    } else {
        named = Py_None;
        Py_INCREF(named);
    }
    if (keys != NULL && named != NULL)
        key = PyTuple_Pack(2, keys, named);
    Py_XDECREF(keys);
    Py_XDECREF(named);
    return key;
}

#endif
