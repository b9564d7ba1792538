/* Rows of DESCRIPTOR for a look, to which the order of elements is all the same: in the order in which they lie, and of
 * a large tensor a part, another one each time. The twin of ``numerics.light.part_of``.
 */
#ifndef TRUELINE_CALLS_LIGHT_ROWS_H
#define TRUELINE_CALLS_LIGHT_ROWS_H

#include <stdint.h>
#include <string.h>

#include "_look_api.h"

/* numerics.light: PART_LEAST, PART_MOST, PART_BLOCK */
#define PART_LEAST 65536
#define PART_MOST 8
#define PART_BLOCK 4096

#define ROW_DIMENSIONS 6

/* Lets a row name its elements in the order in which they lie: most that are not contiguous then are. One that repeats
 * its elements stays as it is. */
static void order_row(uint64_t *row)
{
    int64_t shape[ROW_DIMENSIONS], strides[ROW_DIMENSIONS];
    int64_t *sizes = (int64_t *)row + 3, *steps = (int64_t *)row + 3 + ROW_DIMENSIONS;
    int ndim = (int)(row[2] >> 32), kept = 0;
    if (ndim < 2)
        return;
    for (int dim = 0; dim < ndim; dim++) {
        int at = dim;
        if (steps[dim] <= 0)
            return;
        for (; at > 0 && strides[at - 1] < steps[dim]; at--) {
            shape[at] = shape[at - 1];
            strides[at] = strides[at - 1];
        }
        shape[at] = sizes[dim];
        strides[at] = steps[dim];
    }
    for (int dim = 1; dim < ndim; dim++) {
        if (strides[kept] == shape[dim] * strides[dim]) {
            shape[kept] *= shape[dim];
        } else {
            shape[++kept] = shape[dim];
        }
        strides[kept] = strides[dim];
    }
    memcpy(sizes, shape, (size_t)(kept + 1) * sizeof *sizes);
    memcpy(steps, strides, (size_t)(kept + 1) * sizeof *steps);
    row[2] = (row[2] & 0xffffffffu) | (uint64_t)(kept + 1) << 32;
}

/* Takes every ``share``-th of a dimension, from ``phase`` on. */
static void thin_out(uint64_t *row, int dim, int64_t share, int64_t phase, int64_t itemsize)
{
    int64_t *sizes = (int64_t *)row + 3, *steps = (int64_t *)row + 3 + ROW_DIMENSIONS;
    int64_t left = (sizes[dim] - phase + share - 1) / share;
    row[0] += (uint64_t)(phase * steps[dim] * itemsize);
    row[1] = (uint64_t)((int64_t)row[1] / sizes[dim] * left);
    sizes[dim] = left;
    steps[dim] *= share;
}

/* Leaves a part of a large tensor in its row; the parts of so many rounds as there are hold all elements. */
static void part_of_row(uint64_t *row, int64_t itemsize, int64_t round)
{
    int64_t *sizes = (int64_t *)row + 3, *steps = (int64_t *)row + 3 + ROW_DIMENSIONS;
    int64_t numel = (int64_t)row[1], share = numel / PART_LEAST;
    int ndim = (int)(row[2] >> 32);
    if (share < 2)
        return;
    share = share > PART_MOST ? PART_MOST : share;
    if (ndim == 1 && steps[0] == 1) {
        /* what is left over by whole blocks lies at the end, and every other time at the beginning */
        row[0] += round / share % 2 ? (uint64_t)(numel % PART_BLOCK * itemsize) : 0;
        row[1] = (uint64_t)(numel - numel % PART_BLOCK);
        row[2] = (row[2] & 0xffffffffu) | (uint64_t)2 << 32;
        sizes[0] = numel / PART_BLOCK;
        steps[0] = PART_BLOCK;
        sizes[1] = PART_BLOCK;
        steps[1] = 1;
        ndim = 2;
    }
    for (int dim = 0; dim < ndim - 1; dim++)
        if (sizes[dim] >= 2 * share) {
            thin_out(row, dim, share, round % share, itemsize);
            return;
        }
}

#endif
