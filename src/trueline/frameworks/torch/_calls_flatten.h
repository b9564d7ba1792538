/* What ``flatten.flatten`` does: the same keys, the same tensors in the same order.
 *
 * ``flatten`` makes the keys that Python makes. ``spell`` writes the same as words: most arguments are plain, and a row
 * of words is found in a table several times faster than a tuple of tuples in a dictionary.
 */
#ifndef TRUELINE_CALLS_FLATTEN_H
#define TRUELINE_CALLS_FLATTEN_H

#include "_calls_common.h"

/* Held as long as the process lives, as torch is. */
static PyObject *tensor_type, *parameter_type, *tensor_key, *flatten_other, *ordered_dict, *register_hook;
static PyObject *called_type; /* of depth.py */

/* A property of a tensor as torch knows it: a subclass may have laid code of its own over it. As unseen.told. */
static PyObject *told(PyObject *tensor, PyObject *name)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor);
    if (kind == tensor_type || kind == parameter_type)
        return PyObject_GetAttr(tensor, name);
    PyObject *base = (PyObject *)PyType_GetSlot((PyTypeObject *)tensor_type, Py_tp_base);
    PyObject *property = PyObject_GetAttr(base, name), *value = NULL;
    if (property != NULL)
        value = PyObject_CallMethod(property, "__get__", "(O)", tensor);
    Py_XDECREF(property);
    return value;
}

static int told_truth(PyObject *tensor, PyObject *name)
{
    PyObject *value = told(tensor, name);
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

/* -1 with an error set on errors. */
static long long told_integer(PyObject *tensor, PyObject *name)
{
    PyObject *value = told(tensor, name);
    long long number = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return number;
}
static PyObject *size_type, *dtype_type, *format_type;

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

/* ---- the same in words ---- */

#define MOST_TEXTS 16
#define MOST_NESTED 16

enum { W_TENSOR = 1, W_NONE, W_TRUE, W_FALSE, W_INTEGER, W_FLOAT, W_TEXT, W_TUPLE, W_LIST, W_SIZE, W_SINGLE, W_ELLIPSIS,
       W_SLICE, W_NAMED };

typedef struct {
    Words words;
    Leaves *leaves;
    PyObject *texts[MOST_TEXTS]; /* borrowed; words stand for them by their address */
    int text_count, depth;
} Spelling;

/* All functions below give 1 where all is well, 0 where a value cannot be spelled, -1 on errors. */

static int spell(Spelling *spelling, PyObject *value);

static int spell_words(Spelling *spelling, int64_t first, int64_t second)
{
    int64_t *at = more_words(&spelling->words, 2);
    if (at == NULL)
        return -1;
    at[0] = first;
    at[1] = second;
    return 1;
}

static int spell_integer(Spelling *spelling, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? 0 : spell_words(spelling, W_INTEGER, number);
}

static int spell_float(Spelling *spelling, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return spell_words(spelling, W_FLOAT, bits);
}

static int spell_text(Spelling *spelling, PyObject *value)
{
    if (spelling->text_count == MOST_TEXTS)
        return 0;
    spelling->texts[spelling->text_count++] = value;
    return spell_words(spelling, W_TEXT, (int64_t)(uintptr_t)value);
}

static int spell_items(Spelling *spelling, PyObject *value, int64_t kind)
{
    Py_ssize_t count = kind == W_LIST ? PyList_Size(value) : PyTuple_Size(value);
    if (++spelling->depth > MOST_NESTED)
        return 0;
    int done = spell_words(spelling, kind, count);
    for (Py_ssize_t i = 0; done > 0 && i < count; i++) {
        PyObject *item = kind == W_LIST ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
        done = item == NULL ? -1 : spell(spelling, item);
    }
    spelling->depth--;
    return done;
}

static int spell_slice(Spelling *spelling, PyObject *value)
{
    PyObject *names[] = {N_start, N_stop, N_step};
    int done = add_word(&spelling->words, W_SLICE) < 0 ? -1 : 1;
    for (int i = 0; done > 0 && i < 3; i++) {
        PyObject *part = PyObject_GetAttr(value, names[i]);
        PyTypeObject *kind = part == NULL ? NULL : Py_TYPE(part);
        done = part == NULL ? -1 : part == Py_None || kind == &PyLong_Type ? spell(spelling, part) : 0;
        Py_XDECREF(part);
    }
    return done;
}

/* Runs no foreign code. */
static int spell(Spelling *spelling, PyObject *value)
{
    PyTypeObject *kind = Py_TYPE(value);
    if ((PyObject *)kind == tensor_type || (PyObject *)kind == parameter_type)
        return add_leaf(spelling->leaves, value) < 0 || add_word(&spelling->words, W_TENSOR) < 0 ? -1 : 1;
    if (value == Py_None || kind == &PyBool_Type || value == Py_Ellipsis)
        return add_word(&spelling->words, value == Py_None    ? W_NONE
                                          : value == Py_True  ? W_TRUE
                                          : value == Py_False ? W_FALSE
                                                              : W_ELLIPSIS) < 0
                   ? -1
                   : 1;
    if (kind == &PyLong_Type)
        return spell_integer(spelling, value);
    if (kind == &PyFloat_Type)
        return spell_float(spelling, value);
    if (kind == &PyUnicode_Type)
        return spell_text(spelling, value);
    if (kind == &PyTuple_Type)
        return spell_items(spelling, value, W_TUPLE);
    if (kind == &PyList_Type)
        return spell_items(spelling, value, W_LIST);
    if ((PyObject *)kind == size_type)
        return spell_items(spelling, value, W_SIZE);
    if ((PyObject *)kind == dtype_type || (PyObject *)kind == format_type) /* there is one object of each, for ever */
        return spell_words(spelling, W_SINGLE, (int64_t)(uintptr_t)value);
    return kind == &PySlice_Type ? spell_slice(spelling, value) : 0;
}

static int spell_arguments(Spelling *spelling, PyObject *args, PyObject *kwargs)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    int done = spell_items(spelling, args, W_TUPLE);
    while (done > 0 && kwargs != Py_None && PyDict_Next(kwargs, &at, &name, &value)) {
        done = add_word(&spelling->words, W_NAMED) < 0 ? -1 : spell_text(spelling, name);
        if (done > 0)
            done = spell(spelling, value);
    }
    return done;
}

static void begin_spelling(Spelling *spelling, Leaves *leaves)
{
    begin_words(&spelling->words);
    spelling->leaves = leaves;
    spelling->text_count = spelling->depth = 0;
}

static void end_spelling(Spelling *spelling)
{
    end_words(&spelling->words);
}

#endif
