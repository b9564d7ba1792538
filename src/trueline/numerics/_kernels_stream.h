/* Brings the elements of any strided tensor into logical order, block by block.
 *
 * A contiguous tensor is handed out as it lies. Any other is gathered into a buffer by walking its dimensions like an
 * odometer. Where the last dimension is the slow one in memory (a transposed matrix), walking it touches a cache line
 * per element, so several rows are gathered together, as many as share a line: a panel.
 */
#ifndef TRUELINE_KERNELS_STREAM_H
#define TRUELINE_KERNELS_STREAM_H

#include "_kernels.h"

#define PANEL_LIMIT ((int64_t)8 << 20) /* bytes */
#define TILE 16

typedef struct {
    char bytes[16];
} Wide;

typedef struct {
    const char *cursor; /* contiguous: the next element; else: where the current run begins */
    int itemsize, ndim, contiguous;
    int64_t shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS], index[MAX_DIMENSIONS]; /* strides in bytes */
    int64_t panel_rows;                                                           /* 0: no panels */
    char *buffer, *allocated;
    int64_t capacity, begin, end; /* in elements */
    char small[BLOCK * sizeof(Wide)] __attribute__((aligned(64)));
} Stream;

#define DEFINE_GATHER(NAME, TYPE)                                                                         \
    static void NAME(char *restrict out, const char *restrict in, int64_t stride, int64_t count)          \
    {                                                                                                     \
        for (int64_t i = 0; i < count; i++)                                                               \
            memcpy(out + i * (int64_t)sizeof(TYPE), in + i * stride, sizeof(TYPE));                       \
    }
DEFINE_GATHER(gather_1, uint8_t)
DEFINE_GATHER(gather_2, uint16_t)
DEFINE_GATHER(gather_4, uint32_t)
DEFINE_GATHER(gather_8, uint64_t)
DEFINE_GATHER(gather_16, Wide)

static void gather(char *out, const char *in, int64_t stride, int64_t count, int itemsize)
{
    if (stride == itemsize) {
        memcpy(out, in, (size_t)(count * itemsize));
        return;
    }
    switch (itemsize) {
    case 1: gather_1(out, in, stride, count); break;
    case 2: gather_2(out, in, stride, count); break;
    case 4: gather_4(out, in, stride, count); break;
    case 8: gather_8(out, in, stride, count); break;
    default: gather_16(out, in, stride, count); break;
    }
}

/* out[row][column] = in[row * row_stride + column * column_stride], by tiles, so that a line is read once. */
#define DEFINE_PANEL(NAME, TYPE)                                                                               \
    static void NAME(char *restrict out, const char *restrict in, int64_t row_stride, int64_t column_stride,   \
                     int64_t rows, int64_t columns)                                                            \
    {                                                                                                          \
        const int64_t size = (int64_t)sizeof(TYPE);                                                            \
        TYPE tile[TILE][CACHE_LINE];                                                                           \
        for (int64_t left = 0; left < columns; left += TILE) {                                                 \
            int64_t width = columns - left < TILE ? columns - left : TILE;                                     \
            for (int64_t column = 0; column < width; column++) {                                               \
                const char *from = in + (left + column) * column_stride;                                       \
                if (row_stride == size)                                                                        \
                    memcpy(tile[column], from, (size_t)(rows * size));                                         \
                else                                                                                           \
                    for (int64_t row = 0; row < rows; row++)                                                   \
                        memcpy(&tile[column][row], from + row * row_stride, sizeof(TYPE));                     \
            }                                                                                                  \
            for (int64_t row = 0; row < rows; row++) {                                                         \
                char *to = out + (row * columns + left) * size;                                                \
                for (int64_t column = 0; column < width; column++)                                             \
                    memcpy(to + column * size, &tile[column][row], sizeof(TYPE));                              \
            }                                                                                                  \
        }                                                                                                      \
    }
DEFINE_PANEL(panel_1, uint8_t)
DEFINE_PANEL(panel_2, uint16_t)
DEFINE_PANEL(panel_4, uint32_t)
DEFINE_PANEL(panel_8, uint64_t)
DEFINE_PANEL(panel_16, Wide)

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

/* How many rows to gather together; 0 where the rows are better walked one by one. */
static int64_t choose_panel_rows(const Stream *stream)
{
    if (stream->ndim < 2)
        return 0;
    int last = stream->ndim - 1;
    int64_t inner = magnitude(stream->strides[last]), outer = magnitude(stream->strides[last - 1]);
    int64_t rows = CACHE_LINE / stream->itemsize;
    if (rows > stream->shape[last - 1])
        rows = stream->shape[last - 1];
    if (inner < CACHE_LINE || outer >= CACHE_LINE || rows < 2 || stream->shape[last] < TILE)
        return 0;
    return rows * stream->shape[last] * stream->itemsize <= PANEL_LIMIT ? rows : 0;
}

static void stream_open(Stream *stream, const Descriptor *tensor, int itemsize)
{
    stream->cursor = (const char *)(uintptr_t)tensor->pointer;
    stream->itemsize = itemsize;
    stream->ndim = tensor->ndim;
    stream->contiguous = tensor->ndim == 1 && (tensor->strides[0] == 1 || tensor->numel <= 1);
    stream->allocated = NULL;
    if (stream->contiguous)
        return;
    for (int dim = 0; dim < tensor->ndim; dim++) {
        stream->shape[dim] = tensor->shape[dim];
        stream->strides[dim] = tensor->strides[dim] * itemsize;
        stream->index[dim] = 0;
    }
    stream->begin = stream->end = 0;
    stream->buffer = stream->small;
    stream->capacity = BLOCK;
    stream->panel_rows = choose_panel_rows(stream);
    if (stream->panel_rows) {
        int64_t capacity = BLOCK + stream->panel_rows * stream->shape[stream->ndim - 1];
        stream->allocated = malloc((size_t)(capacity * itemsize));
        if (stream->allocated) {
            stream->buffer = stream->allocated;
            stream->capacity = capacity;
        } else {
            stream->panel_rows = 0; /* slower, but right */
        }
    }
}

static void stream_close(Stream *stream)
{
    free(stream->allocated);
}

/* Moves `count` steps along `dim`, at most to its end, carrying into the dimensions before it. */
static void stream_advance(Stream *stream, int dim, int64_t count)
{
    stream->index[dim] += count;
    stream->cursor += count * stream->strides[dim];
    while (dim > 0 && stream->index[dim] == stream->shape[dim]) {
        stream->cursor -= stream->shape[dim] * stream->strides[dim];
        stream->index[dim] = 0;
        dim--;
        stream->index[dim]++;
        stream->cursor += stream->strides[dim];
    }
}

static void stream_fill_run(Stream *stream, int64_t wanted)
{
    int last = stream->ndim - 1;
    int64_t run = stream->shape[last] - stream->index[last];
    if (run > wanted)
        run = wanted;
    gather(stream->buffer + stream->end * stream->itemsize, stream->cursor, stream->strides[last], run,
           stream->itemsize);
    stream->end += run;
    stream_advance(stream, last, run);
}

static void stream_fill_panel(Stream *stream)
{
    int last = stream->ndim - 1;
    int64_t columns = stream->shape[last], rows = stream->shape[last - 1] - stream->index[last - 1];
    int64_t row_stride = stream->strides[last - 1], column_stride = stream->strides[last];
    char *out = stream->buffer + stream->end * stream->itemsize;
    if (rows > stream->panel_rows)
        rows = stream->panel_rows;
    switch (stream->itemsize) {
    case 1: panel_1(out, stream->cursor, row_stride, column_stride, rows, columns); break;
    case 2: panel_2(out, stream->cursor, row_stride, column_stride, rows, columns); break;
    case 4: panel_4(out, stream->cursor, row_stride, column_stride, rows, columns); break;
    case 8: panel_8(out, stream->cursor, row_stride, column_stride, rows, columns); break;
    default: panel_16(out, stream->cursor, row_stride, column_stride, rows, columns); break;
    }
    stream->end += rows * columns;
    stream_advance(stream, last - 1, rows);
}

/* The next `count` elements in logical order, at most BLOCK and no more than are left; good until the next call. */
static const char *stream_next(Stream *stream, int64_t count)
{
    if (stream->contiguous) {
        const char *here = stream->cursor;
        stream->cursor += count * stream->itemsize;
        return here;
    }
    int64_t kept = stream->end - stream->begin;
    if (kept < count) {
        memmove(stream->buffer, stream->buffer + stream->begin * stream->itemsize, (size_t)(kept * stream->itemsize));
        stream->begin = 0;
        stream->end = kept;
        while (stream->end < count) {
            if (stream->panel_rows)
                stream_fill_panel(stream);
            else
                stream_fill_run(stream, count - stream->end);
        }
    }
    const char *here = stream->buffer + stream->begin * stream->itemsize;
    stream->begin += count;
    return here;
}

#endif
