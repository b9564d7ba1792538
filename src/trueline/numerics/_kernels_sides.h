/* Candidate, honest implementation and gold side by side, read as they are stored, a block of doubles at a time.
 *
 * Every loop over them goes over one block in the first-level cache and either makes one number of each element or adds
 * numbers up, so that compilers make vectors of it.
 */
#ifndef TRUELINE_KERNELS_SIDES_H
#define TRUELINE_KERNELS_SIDES_H

#include "_kernels.h"
#include "_kernels_convert.h"

#define LANES 4 /* numbers in a vector; wider ones than the processor has are taken apart again, slowly */

/* fmax and fmin of the library are calls, and care for NaN, which is not here. */
#define LARGER(one, other) ((one) > (other) ? (one) : (other))
#define SMALLER(one, other) ((one) < (other) ? (one) : (other))
#define INFINITE 0x7FF0000000000000LL

typedef double Row[BLOCK];
typedef double Lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef int64_t LongLanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

/* Whole tensors, by real components. Two that are the same have the same address. */
typedef struct {
    const char *candidate, *honest, *gold; /* honest may be NULL */
    const double *low;                     /* may be NULL */
    int component, gold_component;
    int64_t count;
} Sides;

/* A block of them as doubles. */
typedef struct {
    const double *candidate, *honest, *gold, *low;
    int64_t start, count;
} Part;

typedef struct {
    Row candidate, honest, gold;
} Room;

static const double *doubles_at(const char *tensor, int component, int64_t start, int64_t count, double *room)
{
    if (component == FLOAT64)
        return (const double *)tensor + start;
    to_doubles(component, tensor + start * TYPES[component].itemsize, count, room);
    return room;
}

static Part part_at(const Sides *sides, int64_t start, Room *room)
{
    Part part = {.start = start, .count = SMALLER(sides->count - start, BLOCK)};
    part.candidate = doubles_at(sides->candidate, sides->component, start, part.count, room->candidate);
    if (sides->honest != NULL)
        part.honest = sides->honest == sides->candidate
                          ? part.candidate
                          : doubles_at(sides->honest, sides->component, start, part.count, room->honest);
    if (sides->gold != NULL)
        part.gold = sides->gold == sides->honest
                        ? part.honest
                        : doubles_at(sides->gold, sides->gold_component, start, part.count, room->gold);
    part.low = sides->low ? sides->low + start : NULL;
    return part;
}

ALWAYS_INLINE int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ALWAYS_INLINE double double_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ALWAYS_INLINE int exponent_bits(double value)
{
    return (int)((bits_of(value) >> 52) & 0x7FF);
}

ALWAYS_INLINE double sum_of(const double *terms, int64_t count)
{
    Lanes sums[2] = {{0.0}, {0.0}};
    double rest = 0.0;
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        for (int k = 0; k < 2; k++)
            sums[k] += *(const Lanes *)(terms + i + k * LANES);
    for (; i < count; i++)
        rest += terms[i];
    Lanes both = sums[0] + sums[1];
    return rest + ((both[0] + both[1]) + (both[2] + both[3]));
}

/* The bits of the largest magnitude: INFINITE or more where something is not finite. Positive doubles are ordered as
 * their bits are. */
ALWAYS_INLINE int64_t largest_of(const double *values, int64_t count)
{
    LongLanes found[2] = {{0}, {0}};
    int64_t largest = 0, i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        for (int k = 0; k < 2; k++) {
            LongLanes bits = *(const LongLanes *)(values + i + k * LANES) & INT64_MAX, larger = bits > found[k];
            found[k] = (bits & larger) | (found[k] & ~larger);
        }
    for (; i < count; i++) {
        int64_t bits = bits_of(values[i]) & INT64_MAX;
        largest = LARGER(bits, largest);
    }
    for (int lane = 0; lane < LANES; lane++) {
        largest = LARGER(found[0][lane], largest);
        largest = LARGER(found[1][lane], largest);
    }
    return largest;
}

#endif
