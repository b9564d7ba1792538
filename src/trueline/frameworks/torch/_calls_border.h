/* Finds the nodes on the border of the piece of the graph that a call added, and waits at them. See ``graph.py``. */
#ifndef TRUELINE_CALLS_BORDER_H
#define TRUELINE_CALLS_BORDER_H

#include "_calls_backward.h"

typedef struct {
    PyObject *source; /* a node, or a tensor that has none */
    Py_ssize_t number, leaf;
} Edge;

typedef struct {
    Py_ssize_t entry; /* the node at which it arrives, by its place among the visited */
    Crossing crossing;
} Arrival;

typedef struct {
    Recorder *recorder;
    long long first_sequence;
    Edge edges[MOST_EDGES];
    Py_ssize_t edge_count;
    Arrival *arrivals;
    Py_ssize_t arrival_count;
    PyObject *visited[MOST_VISITED];
    Py_ssize_t visited_count, entry_count;
    PyObject *waiting[MOST_VISITED]; /* borrowed from those visited */
    Py_ssize_t waiting_count;
    PyObject *nodes[MOST_VISITED]; /* on the border; borrowed too */
    Hook *hooks[MOST_VISITED];
    Py_ssize_t node_count;
} Walk;

static void end_walk(Walk *walk)
{
    for (Py_ssize_t i = 0; i < walk->edge_count; i++)
        Py_DECREF(walk->edges[i].source);
    for (Py_ssize_t i = 0; i < walk->visited_count; i++)
        Py_DECREF(walk->visited[i]);
    for (Py_ssize_t i = 0; i < walk->node_count; i++)
        Py_DECREF(walk->hooks[i]);
    free(walk->arrivals);
}

static Py_ssize_t size_at(PyObject *object, PyObject *name)
{
    return (Py_ssize_t)integer_at(object, name);
}

/* All functions below give 1 where all is well, 0 where the piece is too large for us, -1 on errors. */

static int add_edges(Walk *walk, PyObject *leaves)
{
    for (Py_ssize_t leaf = 0; leaf < PyList_Size(leaves); leaf++) {
        PyObject *tensor = PyList_GetItem(leaves, leaf);
        int wanted = truth_at(tensor, N_requires_grad);
        if (wanted < 0)
            return -1;
        if (!wanted)
            continue;
        if (walk->edge_count == MOST_EDGES)
            return 0;
        PyObject *source = PyObject_GetAttr(tensor, N_grad_fn);
        Py_ssize_t number = 0;
        if (source == NULL)
            return -1;
        if (source == Py_None) {
            Py_DECREF(source);
            Py_INCREF(source = tensor);
        } else {
            number = size_at(tensor, N_output_nr);
        }
        walk->edges[walk->edge_count++] = (Edge){source, number, leaf};
        if (number == -1 && PyErr_Occurred())
            return -1;
    }
    return 1;
}

/* Whether a node is older than the call; -1 on errors. */
static int is_older(const Walk *walk, PyObject *node)
{
    PyObject *answer = PyObject_CallMethodObjArgs(node, N__sequence_nr, NULL);
    if (answer == NULL)
        return -1;
    unsigned long long sequence = PyLong_AsUnsignedLongLong(answer); /* that of AccumulateGrad is the largest */
    Py_DECREF(answer);
    if (sequence == (unsigned long long)-1 && PyErr_Occurred())
        return -1;
    return sequence < (unsigned long long)walk->first_sequence;
}

static Py_ssize_t place_among(PyObject *const *nodes, Py_ssize_t count, const PyObject *node)
{
    while (count-- > 0 && nodes[count] != node)
        ;
    return count;
}

/* Takes the reference to a node that is not among those visited. */
static int visit_node(Walk *walk, PyObject *node)
{
    if (walk->visited_count == MOST_VISITED) {
        Py_DECREF(node);
        return 0;
    }
    walk->visited[walk->visited_count++] = node;
    walk->waiting[walk->waiting_count++] = node;
    return 1;
}

static int add_entry(Walk *walk, PyObject *tensor, Py_ssize_t leaf)
{
    PyObject *node = PyObject_GetAttr(tensor, N_grad_fn);
    int older = node == NULL ? -1 : node == Py_None ? 1 : is_older(walk, node);
    if (older) {
        Py_XDECREF(node);
        return older < 0 ? -1 : 1;
    }
    Py_ssize_t number = size_at(tensor, N_output_nr);
    Py_ssize_t entry = place_among(walk->visited, walk->visited_count, node);
    if (number == -1 && PyErr_Occurred()) {
        Py_DECREF(node);
        return -1;
    }
    if (entry >= 0) {
        Py_DECREF(node);
    } else {
        entry = walk->visited_count;
        int done = visit_node(walk, node);
        if (done <= 0)
            return done;
    }
    walk->arrivals[walk->arrival_count++] = (Arrival){entry, {number, leaf}};
    return 1;
}

static int add_entries(Walk *walk, PyObject *outputs, Py_ssize_t first)
{
    Py_ssize_t count = PyList_Size(outputs);
    walk->arrivals = malloc((size_t)(count ? count : 1) * sizeof *walk->arrivals);
    if (walk->arrivals == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && i < PyList_Size(outputs); i++) {
        PyObject *tensor = PyList_GetItem(outputs, i);
        int wanted = truth_at(tensor, N_requires_grad);
        int done = wanted > 0 ? add_entry(walk, tensor, first + i) : wanted < 0 ? -1 : 1;
        if (done <= 0)
            return done;
    }
    walk->entry_count = walk->visited_count;
    return 1;
}

/* The forward input at an edge, -1 where there is none; of several the last. */
static Py_ssize_t leaf_behind(const Walk *walk, const PyObject *source, Py_ssize_t number)
{
    for (Py_ssize_t i = walk->edge_count - 1; i >= 0; i--)
        if (walk->edges[i].source == source && walk->edges[i].number == number)
            return walk->edges[i].leaf;
    return -1;
}

/* The forward input that an edge leads to, -1 where there is none, -2 on errors. */
static Py_ssize_t leaf_at(const Walk *walk, PyObject *following, Py_ssize_t number)
{
    Py_ssize_t leaf = leaf_behind(walk, following, number);
    if (leaf >= 0 || (PyObject *)Py_TYPE(following) != walk->recorder->accumulate)
        return leaf;
    PyObject *variable = PyObject_GetAttr(following, N_variable);
    if (variable == NULL)
        return -2;
    leaf = leaf_behind(walk, variable, 0);
    Py_DECREF(variable);
    return leaf;
}

/* Follows one edge out of a node: notes that it leads to an input, or that the node it leads to is to be visited. */
static int follow(Walk *walk, PyObject *edge, Py_ssize_t position, Hook *hook)
{
    PyObject *following = PyTuple_GetItem(edge, 0), *number = PyTuple_GetItem(edge, 1);
    if (following == NULL || number == NULL)
        return -1;
    if (following == Py_None)
        return 1;
    Py_ssize_t leaf = leaf_at(walk, following, PyLong_AsSsize_t(number));
    if (leaf == -2 || PyErr_Occurred())
        return -1;
    if (leaf >= 0) {
        hook->crossings[hook->arrivals + hook->departures++] = (Crossing){position, leaf};
        return 1;
    }
    if (place_among(walk->visited, walk->visited_count, following) >= 0)
        return 1;
    int older = is_older(walk, following);
    if (older)
        return older < 0 ? -1 : 1;
    Py_INCREF(following);
    return visit_node(walk, following);
}

static int fill_hook(Walk *walk, PyObject *node, PyObject *edges, Hook *hook)
{
    Py_ssize_t entry = place_among(walk->visited, walk->entry_count, node), count = PyTuple_Size(edges);
    hook->crossings = malloc((size_t)(walk->arrival_count + count + 1) * sizeof *hook->crossings);
    if (count < 0 || hook->crossings == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; entry >= 0 && i < walk->arrival_count; i++)
        if (walk->arrivals[i].entry == entry)
            hook->crossings[hook->arrivals++] = walk->arrivals[i].crossing;
    for (Py_ssize_t position = 0; position < count; position++) {
        int done = follow(walk, PyTuple_GetItem(edges, position), position, hook);
        if (done <= 0)
            return done;
    }
    if (entry >= 0 || hook->departures) {
        Py_INCREF(hook);
        walk->nodes[walk->node_count] = node;
        walk->hooks[walk->node_count++] = hook;
    }
    return 1;
}

static int walk_from(Walk *walk, PyObject *node)
{
    PyObject *edges = PyObject_GetAttr(node, N_next_functions);
    Hook *hook = edges == NULL ? NULL : (Hook *)new_object(walk->recorder->hook_type);
    int done = hook == NULL ? -1 : fill_hook(walk, node, edges, hook);
    Py_XDECREF(hook);
    Py_XDECREF(edges);
    return done;
}

static int wait_at_border(Walk *walk, const Forward *call)
{
    Recorder *recorder = walk->recorder;
    Backward *backward = (Backward *)new_object(recorder->backward_type);
    if (backward == NULL)
        return -1;
    Py_INCREF(backward->recorder = recorder);
    backward->call = *call;
#define HOLD(name) Py_INCREF(call->name);
    FORWARD_FIELDS(HOLD)
#undef HOLD
    backward->nodes = walk->node_count;
    int failed = 0;
    for (Py_ssize_t i = 0; i < walk->node_count && !failed; i++) {
        Py_INCREF(walk->hooks[i]->backward = backward);
        PyObject *handle = PyObject_CallMethodObjArgs(walk->nodes[i], N_register_hook, walk->hooks[i], NULL);
        failed = handle == NULL;
        Py_XDECREF(handle);
    }
    if (!failed && walk->node_count > 1) {
        PyObject *list = PyObject_GetAttr(recorder->watch, N_backwards);
        failed = list == NULL || PyList_Append(list, (PyObject *)backward) < 0;
        Py_XDECREF(list);
    }
    Py_DECREF(backward);
    return failed ? -1 : 1;
}

/* Watches the backward of a call. */
static int watch_backward(Recorder *recorder, const Forward *call, long long first_sequence, PyObject *inputs,
                          PyObject *outputs)
{
    Walk walk; /* of large arrays only what the counts say is filled */
    walk.recorder = recorder;
    walk.first_sequence = first_sequence;
    walk.arrivals = NULL;
    walk.edge_count = walk.arrival_count = walk.visited_count = walk.entry_count = 0;
    walk.waiting_count = walk.node_count = 0;
    int done = add_edges(&walk, inputs);
    if (done > 0)
        done = add_entries(&walk, outputs, PyList_Size(inputs));
    while (done > 0 && walk.waiting_count)
        done = walk_from(&walk, walk.waiting[--walk.waiting_count]);
    if (done > 0 && walk.node_count)
        done = wait_at_border(&walk, call);
    end_walk(&walk);
    return done;
}

#endif
