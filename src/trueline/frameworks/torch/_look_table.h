/* A hash table from keys of whole words to Python objects; keys of different lengths may live in one table.
 *
 * No function here runs foreign code while the table is in an unfinished state, so the interpreter's lock is all the
 * protection it needs.
 */
#ifndef TRUELINE_LOOK_TABLE_H
#define TRUELINE_LOOK_TABLE_H

#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024 /* a power of two */

typedef struct {
    uint64_t hash;
    size_t first; /* of its words in the arena */
    size_t length;
    PyObject *value; /* NULL in a free slot */
} Slot;

typedef struct {
    Slot *slots;
    size_t size, used;
    int64_t *words;
    size_t words_size, words_used;
} Table;

static uint64_t hash_of(const int64_t *key, size_t length)
{
    uint64_t hash = 0x9E3779B97F4A7C15u ^ length;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint64_t)key[i]) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The slot that holds a key, or the free one where it belongs. */
static Slot *table_slot(const Table *table, const int64_t *key, size_t length, uint64_t hash)
{
    for (size_t at = (size_t)hash & (table->size - 1);; at = (at + 1) & (table->size - 1)) {
        Slot *slot = &table->slots[at];
        if (slot->value == NULL)
            return slot;
        if (slot->hash == hash && slot->length == length &&
            memcmp(table->words + slot->first, key, length * sizeof *key) == 0)
            return slot;
    }
}

/* A borrowed reference, NULL (with no error set) where the key is unknown. */
static PyObject *table_find(const Table *table, const int64_t *key, size_t length)
{
    return table->size ? table_slot(table, key, length, hash_of(key, length))->value : NULL;
}

static int table_grow(Table *table)
{
    size_t size = table->size ? 2 * table->size : FIRST_SLOTS;
    Slot *slots = calloc(size, sizeof *slots);
    if (slots == NULL)
        return -1;
    for (size_t i = 0; i < table->size; i++) {
        const Slot *old = &table->slots[i];
        if (old->value == NULL)
            continue;
        size_t at = (size_t)old->hash & (size - 1);
        while (slots[at].value != NULL)
            at = (at + 1) & (size - 1);
        slots[at] = *old;
    }
    free(table->slots);
    table->slots = slots;
    table->size = size;
    return 0;
}

static int table_room(Table *table, size_t length)
{
    if (2 * (table->used + 1) > table->size && table_grow(table) < 0)
        return -1;
    if (table->words_used + length > table->words_size) {
        size_t size = 2 * table->words_size + 16 * length;
        int64_t *words = realloc(table->words, size * sizeof *words);
        if (words == NULL)
            return -1;
        table->words = words;
        table->words_size = size;
    }
    return 0;
}

/* Enters a value, in place of the one that was there if there was one. */
static int table_set(Table *table, const int64_t *key, size_t length, PyObject *value)
{
    if (table_room(table, length) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    uint64_t hash = hash_of(key, length);
    Slot *slot = table_slot(table, key, length, hash);
    PyObject *old = slot->value;
    Py_INCREF(value);
    if (old == NULL) {
        memcpy(table->words + table->words_used, key, length * sizeof *key);
        *slot = (Slot){hash, table->words_used, length, value};
        table->words_used += length;
        table->used++;
    } else {
        slot->value = value;
        Py_DECREF(old);
    }
    return 0;
}

/* Forgets everything and keeps nothing. */
static void table_free(Table *table)
{
    Table old = *table;
    memset(table, 0, sizeof *table);
    for (size_t i = 0; i < old.size; i++)
        Py_XDECREF(old.slots[i].value);
    free(old.slots);
    free(old.words);
}

/* Forgets everything and keeps the memory, for a table that will be filled as much again. Its values are numbers
 * and tuples of numbers: to let go of them runs no foreign code. */
static void table_clear(Table *table)
{
    for (size_t i = 0; i < table->size; i++)
        Py_XDECREF(table->slots[i].value);
    if (table->size)
        memset(table->slots, 0, table->size * sizeof *table->slots);
    table->used = table->words_used = 0;
}

#endif
