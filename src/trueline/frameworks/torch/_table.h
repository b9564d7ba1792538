/* A hash table from keys of whole words to two words; keys of different lengths may live in one table.
 *
 * No function here runs foreign code, so the interpreter's lock is all the protection it needs.
 */
#ifndef TRUELINE_TABLE_H
#define TRUELINE_TABLE_H

#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024 /* a power of two */
#define LINE 64          /* bytes of a line of the cache */

typedef struct { /* 32 bytes: a slot lies in one line of the cache, which is what a look-up waits for */
    uint64_t hash;
    uint32_t first;  /* of its words in the arena */
    uint32_t length; /* 0 in a free slot: no key is empty */
    int64_t value[2];
} Slot;

typedef struct {
    Slot *slots;
    size_t size, used;
    int64_t *words;
    size_t words_size, words_used;
} Table;

/* Keys of one word have different hashes: every step of it can be undone. */
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
        if (slot->length == 0)
            return slot;
        if (slot->hash == hash && slot->length == length &&
            (length == 1 || memcmp(table->words + slot->first, key, length * sizeof *key) == 0))
            return slot;
    }
}

/* The two words under a key, NULL where it is unknown; good until the table is changed. */
static int64_t *table_find(const Table *table, const int64_t *key, size_t length)
{
    if (table->used == 0)
        return NULL;
    Slot *slot = table_slot(table, key, length, hash_of(key, length));
    return slot->length ? slot->value : NULL;
}

static Slot *free_slots(size_t size)
{
#ifdef _WIN32 /* has no aligned memory that free() takes */
    return calloc(size, sizeof(Slot));
#else
    Slot *slots = aligned_alloc(LINE, size * sizeof *slots);
    return slots == NULL ? NULL : memset(slots, 0, size * sizeof *slots);
#endif
}

static int table_grow(Table *table)
{
    size_t size = table->size ? 2 * table->size : FIRST_SLOTS;
    Slot *slots = free_slots(size);
    if (slots == NULL)
        return -1;
    for (size_t i = 0; i < table->size; i++) {
        const Slot *old = &table->slots[i];
        if (old->length == 0)
            continue;
        size_t at = (size_t)old->hash & (size - 1);
        while (slots[at].length != 0)
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
    if (table->words_used + length > UINT32_MAX)
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

/* Enters two words, in place of those that were there if there were any; -1 with an error set on errors. */
static int table_set(Table *table, const int64_t *key, size_t length, int64_t first, int64_t second)
{
    if (table_room(table, length) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    uint64_t hash = hash_of(key, length);
    Slot *slot = table_slot(table, key, length, hash);
    if (slot->length == 0) {
        memcpy(table->words + table->words_used, key, length * sizeof *key);
        slot->hash = hash;
        slot->first = (uint32_t)table->words_used;
        slot->length = (uint32_t)length;
        table->words_used += length;
        table->used++;
    }
    slot->value[0] = first;
    slot->value[1] = second;
    return 0;
}

/* Forgets everything and keeps nothing. */
static void table_free(Table *table)
{
    free(table->slots);
    free(table->words);
    memset(table, 0, sizeof *table);
}

/* Forgets everything and keeps the memory, for a table that will be filled as much again. */
static void table_clear(Table *table)
{
    if (table->used)
        memset(table->slots, 0, table->size * sizeof *table->slots);
    table->used = table->words_used = 0;
}

#endif
