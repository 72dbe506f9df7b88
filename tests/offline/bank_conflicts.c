/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the bank conflicts of local memory in the layouts of one matrix instruction.
 * bank_conflicts.sh compiles this with INSTRUCTION and the headers of cl/mma/.
 *
 * Local memory has 32 banks of 4 bytes. An access of a sub-group is served in phases of as many lanes as
 * fill 128 bytes: all 32 for 4 bytes or less, 16 for 8, 8 for 16; ldmatrix takes the eight rows of a matrix in a
 * phase. A phase takes as many cycles as the most words that lie in one bank; those beyond the first are
 * conflicts. Lanes that want the same word share it.
 *
 * The addresses follow cl/mma/fragment_tile.h, cl/mma/fragment_attention.h and
 * src/families/projection_gpu/projection_gpu_mma.cl; which element a lane has says the instruction's own header. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EMULATE 1 /* the layouts without the instruction */
#define WEIGHTS_IN_MEMORY 1
#define DTYPE_F16 1
#define DTYPE DTYPE_F16
#define __local
#define __global
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned __int128 uint4;
#if INSTRUCTION == 7
#include "mma/fragment_wgmma.h"
#else
#include "mma/any_instruction.h"
#endif
#include "mma/tile_layout.h"

enum { BANKS = 32, BANK_BYTES = 4, MOST_LANES = 64, ELEMENT = 2 };
static int packed_dims; /* of V */

/* ---- phases ---------------------------------------------------------------------------------- */

/* An access of a sub-group: where each lane's bytes begin; a lane of -1 has none. */
struct access {
    long at[MOST_LANES];
    int bytes;
};

/* Cycles of the lanes from first on, count of them. */
static int cycles_of(const struct access *access, const int first, const int count)
{
    long words[BANKS][MOST_LANES];
    int in_bank[BANKS] = {0}, most = 0;

    for (int lane = first; lane < first + count && lane < FRAGMENT_LANES; lane++)
        for (int byte = 0; access->at[lane] >= 0 && byte < access->bytes; byte += ELEMENT) {
            const long word = (access->at[lane] + byte) / BANK_BYTES;
            const int bank = (int)(word % BANKS);
            int n = 0;
            while (n < in_bank[bank] && words[bank][n] != word)
                n++;
            if (n == in_bank[bank])
                words[bank][in_bank[bank]++] = word;
            most = in_bank[bank] > most ? in_bank[bank] : most;
        }
    return most;
}

struct total {
    int phases, conflicts;
};

static void count(const struct access *access, struct total *total)
{
    const int bytes = access->bytes < BANK_BYTES ? BANK_BYTES : access->bytes;
    const int lanes = BANKS * BANK_BYTES / bytes;

    for (int first = 0; first < FRAGMENT_LANES; first += lanes) {
        const int cycles = cycles_of(access, first, lanes);
        total->phases += cycles > 0;
        total->conflicts += cycles > 0 ? cycles - 1 : 0;
    }
}

static void print(const char *kernel, const char *what, const char *sizes, const int bytes,
                  const struct total total)
{
    printf("%-16s %-16s %-34s %5d %6d %9d\n", kernel, what, sizes, bytes, total.phases,
           total.conflicts);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* An operand of queries from a tile in rows (load_query()). */
static struct total read_query(const int stride, int *bytes)
{
    struct total total = {0, 0};

    for (int w = 0; w < QUERY_WORDS; w += HAS_COPIES ? QUERY_WORDS : QUERY_RUN ? QUERY_RUN : 1)
        for (int half = 0; half < (QUERY_RUN ? QUERY_RUN == 8 ? 2 : 1 : 2); half++) {
            struct access access = {.bytes = QUERY_RUN == 8   ? 16
                                             : QUERY_RUN == 2 ? 8
                                             : QUERY_RUN      ? 4
                                                              : 2};
            for (int lane = 0; lane < FRAGMENT_LANES; lane++)
                access.at[lane] = ELEMENT * (query_row(lane, 2 * w) * stride +
                                             query_depth(lane, 2 * w) + half * 8);
            for (int lane = 0; lane < FRAGMENT_LANES && !QUERY_RUN; lane++)
                access.at[lane] = ELEMENT * (query_row(lane, 2 * w + half) * stride +
                                             query_depth(lane, 2 * w + half));
            if (HAS_COPIES) { /* ldmatrix */
                access.bytes = 16;
                for (int lane = 0; lane < FRAGMENT_LANES; lane++)
                    access.at[lane] = ELEMENT * (lane % 16 * stride + lane / 16 * 8);
            }
            *bytes = access.bytes;
            count(&access, &total);
        }
    return total;
}

/* Operands of keys from a tile in rows (load_keys()). */
static struct total read_keys(const int stride, int *bytes)
{
    struct total total = {0, 0};

    for (int half = 0; half < (KEY_RUN == 8 ? 2 : 1); half++) {
        struct access access = {.bytes = KEY_RUN == 8 || HAS_COPIES ? 16 : 8};
        for (int lane = 0; lane < FRAGMENT_LANES; lane++)
            access.at[lane] =
                HAS_COPIES
                    ? ELEMENT * ((lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8)
                    : ELEMENT * (other_column(lane) * stride + other_depth(lane, 0) + half * 8);
        *bytes = access.bytes;
        count(&access, &total);
    }
    return total;
}

/* Operands of V: in rows (ldmatrix.trans), or packed. */
static struct total read_values(const int dims, int *bytes)
{
    struct total total = {0, 0};

    for (int w = 0; w < (PACKED_VALUES ? OTHER_WORDS : 1); w += PACKED_RUN / 2) {
        struct access access = {.bytes = PACKED_VALUES ? ELEMENT * PACKED_RUN : 16};
        for (int lane = 0; lane < FRAGMENT_LANES; lane++)
            access.at[lane] = PACKED_VALUES
                                  ? ELEMENT * packed_at(packed_dims, 0, other_column(lane),
                                                        other_depth(lane, 2 * w))
                                  : ELEMENT * (lane % 16 * (dims + ROW_PADDING) + lane / 16 * 8);
        *bytes = access.bytes;
        count(&access, &total);
    }
    return total;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Rows by chunks (fill_rows()): 16 bytes, or 8 where rows are padded to these. */
static struct total fill_rows(const int columns, const int stride, const int rows, int *bytes)
{
    const int chunks = columns / ROW_PADDING;
    struct total total = {0, 0};

    *bytes = ELEMENT * ROW_PADDING;
    for (int t0 = 0; t0 < rows * chunks; t0 += FRAGMENT_LANES) {
        struct access access = {.bytes = *bytes};
        for (int lane = 0; lane < FRAGMENT_LANES; lane++) {
            const int t = t0 + lane;
            access.at[lane] = t < rows * chunks ? ELEMENT * row_at(stride, rows, t / chunks,
                                                                   t % chunks * ROW_PADDING)
                                                : -1;
        }
        count(&access, &total);
    }
    return total;
}

/* Reads of wgmma from a tile: eight rows' pieces of 16 bytes for eight terms or dims at a time. */
static struct total read_tile(const int stride, const int rows, int *bytes)
{
    struct total total = {0, 0};

    *bytes = 16;
    for (int row = 0; row < rows; row += FRAGMENT_LANES)
        for (int column = 0; column < stride; column += 8) {
            struct access access = {.bytes = *bytes};
            for (int lane = 0; lane < FRAGMENT_LANES; lane++)
                access.at[lane] = ELEMENT * row_at(stride, rows, row + lane, column);
            count(&access, &total);
        }
    return total;
}

/* V, four keys of four dims a thread (fill_packed()): 8 bytes, four times. */
static struct total fill_packed(const int dims, const int keys)
{
    const int chunks = dims / 4, fours = PACKED_RUN / 4;
    struct total total = {0, 0};

    for (int t0 = 0; t0 < keys / 4 * chunks; t0 += FRAGMENT_LANES)
        for (int n = 0; n < 4; n++) {
            struct access access = {.bytes = 8};
            for (int lane = 0; lane < FRAGMENT_LANES; lane++) {
                const int t = t0 + lane;
                const int four = t / (fours * chunks) * fours + t % fours;
                access.at[lane] =
                    t < keys / 4 * chunks
                        ? ELEMENT * packed_at(packed_dims, four / (FRAGMENT_DEPTH / 4),
                                              t / fours % chunks * 4 + n,
                                              four % (FRAGMENT_DEPTH / 4) * 4)
                        : -1;
            }
            count(&access, &total);
        }
    return total;
}

/* A fragment's weights (store_weights()). */
static struct total store_weights(const int stride, int *bytes)
{
    struct total total = {0, 0};

    *bytes = ELEMENT * KEYS_OF_SUMS;
    for (int e = 0; e < FRAGMENT_SUMS; e += KEYS_OF_SUMS) {
        struct access access = {.bytes = *bytes};
        for (int lane = 0; lane < FRAGMENT_LANES; lane++)
            access.at[lane] =
                ELEMENT * (lane_query(lane, sum_query(e)) * stride + sum_other(lane, e));
        count(&access, &total);
    }
    return total;
}

/* A stage of projection_gpu UNIT=mma: four neighbours along the depth, of four rows (store_stage()). */
static struct total store_stage(const int block_k, const int rows)
{
    const int quads = block_k / 4;
    struct total total = {0, 0};

    for (int t0 = 0; t0 < rows / 4 * quads; t0 += FRAGMENT_LANES)
        for (int n = 0; n < 4; n++) {
            struct access access = {.bytes = 8};
            for (int lane = 0; lane < FRAGMENT_LANES; lane++) {
                const int t = t0 + lane, four = t / quads;
                const int turn = block_k == 16 && ROW_PADDING == 8 ? four & 2 : 0;
                const int across = block_k == 32 && ROW_PADDING == 4
                                       ? ((four & ~3) | (four & 1) << 1 | (four & 2) >> 1) * 4
                                       : four * 4;
                access.at[lane] = t < rows / 4 * quads
                                      ? ELEMENT * ((across + (n ^ turn)) * (block_k + ROW_PADDING) +
                                                   t % quads * 4)
                                      : -1;
            }
            count(&access, &total);
        }
    return total;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int round_up(const int x, const int multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

/* Tiles of so many keys, as both kernels of attention read and fill them. */
static void attention(const int dim, const int keys)
{
    static const char both[] = "fused, split_gpu UNIT=mma";
    const int columns = round_up(dim, FRAGMENT_DEPTH), stride = columns + ROW_PADDING;
    const int dims = round_up(dim, OTHERS_AT_ONCE * FRAGMENT_OTHERS);
    char sizes[64];
    int bytes;
    struct total total;

    packed_dims = dims;
    snprintf(sizes, sizeof sizes, "dim %d, %d keys", dim, keys);
    total = fill_rows(columns, stride, keys, &bytes);
    print(both, "fill K", sizes, bytes, total);
    if (PACKED_VALUES)
        total = fill_packed(dims, keys), bytes = 8;
    else
        total = fill_rows(dims, dims + ROW_PADDING, keys, &bytes);
    print(both, "fill V", sizes, bytes, total);
    total = read_query(stride, &bytes);
    print(both, "read Q", sizes, bytes, total);
    total = read_keys(stride, &bytes);
    print(both, "read K", sizes, bytes, total);
    total = read_values(dims, &bytes);
    print(both, "read V", sizes, bytes, total);
}

/* Tiles of fused_gpu UNIT=warpgroup. */
static void tiles(const int dim, const int keys)
{
    char sizes[64];
    int bytes;
    struct total total;

    snprintf(sizes, sizeof sizes, "dim %d, %d keys", dim, keys);
    total = fill_rows(dim, dim, keys, &bytes);
    print("fused_gpu.warpgroup", "fill K, V", sizes, bytes, total);
    total = read_tile(dim, keys, &bytes);
    print("fused_gpu.warpgroup", "read K, V", sizes, bytes, total);
    total = read_query(dim + ROW_PADDING, &bytes);
    print("fused_gpu.warpgroup", "read Q", sizes, bytes, total);
}

static void weights(const int keys)
{
    char sizes[64];
    int bytes;
    struct total total;

    snprintf(sizes, sizeof sizes, "%d keys", keys);
    total = store_weights(keys + ROW_PADDING, &bytes);
    print("split_gpu.mma", "store weights", sizes, bytes, total);
    total = read_query(keys + ROW_PADDING, &bytes);
    print("split_gpu.mma", "read weights", sizes, bytes, total);
}

static void projection(const int block_k)
{
    char sizes[64];
    int bytes;
    struct total total;

    snprintf(sizes, sizeof sizes, "BLOCK_K %d, 128 rows", block_k);
    print("projection_gpu.mma", "store a stage", sizes, 8, store_stage(block_k, 128));
    total = read_query(block_k + ROW_PADDING, &bytes);
    print("projection_gpu.mma", "read x", sizes, bytes, total);
    total = read_keys(block_k + ROW_PADDING, &bytes);
    print("projection_gpu.mma", "read w", sizes, bytes, total);
}

int main(void)
{
    static const int dims[] = {64, 80, 128, 256, 576}, blocks[] = {16, 32, 64};

    for (int dim = 64; HAS_TILE_PRODUCTS && dim <= 256; dim += 64)
        tiles(dim, 64);
    if (HAS_TILE_PRODUCTS)
        return 0;
    for (size_t n = 0; n < sizeof dims / sizeof *dims; n++)
        attention(dims[n], 64);
    for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++)
        weights(2 * blocks[n]);
    for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++)
        projection(blocks[n]);
    return 0;
}
