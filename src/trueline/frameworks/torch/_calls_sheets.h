/* The rows of calls and visits, as they will lie in the Run, until the notebook takes them. */
#ifndef TRUELINE_CALLS_SHEETS_H
#define TRUELINE_CALLS_SHEETS_H

#include "_calls_common.h"

#define CALL_WORDS 14 /* store.columns.CALL_COLUMNS */
#define VISIT_WORDS 5 /* store.columns.VISIT_COLUMNS */

typedef struct {
    int64_t *at;
    size_t count, room;
} Sheet;

typedef struct {
    PyObject_HEAD
    Sheet calls, visits;
} Sheets;

static PyObject *sheets_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    if (!PyArg_ParseTuple(arguments, ":Sheets") || (keywords && PyDict_Size(keywords)))
        return NULL;
    return new_object(type);
}

static void sheets_dealloc(PyObject *object)
{
    free(((Sheets *)object)->calls.at);
    free(((Sheets *)object)->visits.at);
    free_object(object);
}

static int sheet_room(Sheet *sheet, size_t more)
{
    if (sheet->count + more <= sheet->room)
        return 0;
    size_t room = 2 * sheet->room + more + 1024;
    int64_t *at = realloc(sheet->at, room * sizeof *at);
    if (at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    sheet->at = at;
    sheet->room = room;
    return 0;
}

static void sheet_add(Sheet *sheet, const int64_t *words, size_t count)
{
    memcpy(sheet->at + sheet->count, words, count * sizeof *words);
    sheet->count += count;
}

/* Writes a call with its visits: both, or neither. */
static int write_rows(Sheets *self, const int64_t *call, const int64_t *visits, size_t visit_words)
{
    if (sheet_room(&self->calls, CALL_WORDS) < 0 || sheet_room(&self->visits, visit_words) < 0)
        return -1;
    sheet_add(&self->visits, visits, visit_words);
    sheet_add(&self->calls, call, CALL_WORDS);
    return 0;
}

static int read_integers(PyObject *sequence, Words *words)
{
    Py_ssize_t count = PySequence_Size(sequence);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        long long number = item == NULL ? -1 : PyLong_AsLongLong(item);
        Py_XDECREF(item);
        if ((number == -1 && PyErr_Occurred()) || add_word(words, number) < 0)
            return -1;
    }
    return count < 0 ? -1 : 0;
}

static PyObject *sheets_write(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Words call, visits;
    begin_words(&call);
    begin_words(&visits);
    int failed = count != 2 || read_integers(arguments[0], &call) < 0 || read_integers(arguments[1], &visits) < 0 ||
                 call.count != CALL_WORDS || visits.count % VISIT_WORDS ||
                 write_rows((Sheets *)object, call.at, visits.at, visits.count) < 0;
    end_words(&call);
    end_words(&visits);
    if (!failed)
        Py_RETURN_NONE;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "write(call, visits): a row of a call, and whole rows of visits");
    return NULL;
}

static PyObject *take_sheet(Sheet *sheet)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)sheet->at, (Py_ssize_t)(sheet->count * sizeof *sheet->at));
    if (bytes != NULL)
        sheet->count = 0;
    return bytes;
}

static PyObject *sheets_take(PyObject *object, PyObject *unused)
{
    Sheets *self = (Sheets *)object;
    (void)unused;
    PyObject *visits = take_sheet(&self->visits), *calls = visits == NULL ? NULL : take_sheet(&self->calls);
    PyObject *both = calls == NULL ? NULL : PyTuple_Pack(2, calls, visits);
    Py_XDECREF(calls);
    Py_XDECREF(visits);
    return both;
}

static Py_ssize_t sheets_length(PyObject *self)
{
    return (Py_ssize_t)(((Sheets *)self)->calls.count / CALL_WORDS);
}

static PyMethodDef SHEETS_METHODS[] = {
    {"write", (PyCFunction)(void (*)(void))sheets_write, METH_FASTCALL, "write(call, visits): rows of integers"},
    {"take", sheets_take, METH_NOARGS, "take(): the bytes of all rows of calls and of visits, which are gone then"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SHEETS_SLOTS[] = {
    {Py_tp_new, sheets_new}, {Py_tp_dealloc, sheets_dealloc}, {Py_tp_methods, SHEETS_METHODS},
    {Py_sq_length, sheets_length}, {0, NULL},
};

static PyType_Spec SHEETS_SPEC = {"trueline.frameworks.torch._calls.Sheets", sizeof(Sheets), 0, Py_TPFLAGS_DEFAULT,
                                  SHEETS_SLOTS};

#endif
