/* The numbers of S. Raschka's tutorial "Understanding and Coding the Self-Attention Mechanism of
 * Large Language Models From Scratch" (2023). They are "Life is short, eat dessert first" as six
 * words, and three weight matrices in PyTorch's (out, in) order. There is also a second text of
 * eight words, and the tutorial's output for the second word. Origin and licence:
 * tests/data/conformance/README.md. */
#ifndef EXAMPLE_SIX_WORDS_H
#define EXAMPLE_SIX_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { WORDS = 6, OTHER_WORDS = 8, EMBEDDING = 16, DIM_QK = 24, DIM_V = 28 };

static const char *const words[WORDS] = {"Life", "is", "short", "eat", "dessert", "first"};

static const float embedded[WORDS][EMBEDDING] = {
    {0.337370187f, -0.177777424f, -0.303527564f, -0.588012159f, 0.348605186f, 0.660340965f,
     -0.219637588f, -0.379169792f, 0.767107069f, -1.1925019f, 0.69835192f, -1.40972281f,
     0.179379627f, 1.89514816f, 0.495446354f, 0.269198596f},
    {0.514629006f, 0.993763804f, -0.258733571f, -1.08255124f, -0.0443820357f, 1.62355757f,
     -2.32287073f, 1.08783066f, 0.671554983f, 0.6932953f, -0.948724806f, -0.0765070692f,
     -0.152640358f, 0.116741173f, 0.440260679f, -1.44654644f},
    {0.255291879f, -0.549627721f, 1.00422609f, 0.827230632f, -0.394808978f, 0.489227504f,
     -0.216814831f, -1.74716461f, -1.60250807f, -1.07638538f, 0.903148234f, -0.721844554f,
     -0.59508419f, -0.711217701f, 0.622964859f, -1.37288153f},
    {-1.32495725f, 0.178428471f, -2.13375306f, 1.05235767f, -0.388483047f, -0.934345901f,
     -0.499144107f, -1.08665276f, 0.880544543f, 1.55415857f, 0.626616061f, -0.175487265f,
     0.0982838348f, -0.0935074165f, 0.266214818f, -0.585035264f},
    {-0.0770202279f, -1.02047229f, -0.168956205f, 0.917764187f, 1.58096933f, 1.30103993f,
     1.27530122f, -0.200953349f, 0.496470958f, -1.57230401f, 0.966571629f, -1.14814425f,
     -1.15886831f, 0.325471014f, -0.63150543f, -2.83999395f},
    {0.876836956f, 1.62214363f, -1.47794199f, 1.13310695f, -1.22029042f, 1.31385362f, 1.05329955f,
     0.138805181f, 2.24733138f, -0.803636611f, -0.280842453f, 0.769676268f, -0.659559369f,
     -0.797928214f, 0.183831245f, 0.229347393f},
};

/* Tensors that draw_numbers() fills, as torch.rand() does one after the other after
 * torch.manual_seed(123). */
static float w_query[DIM_QK][EMBEDDING], w_key[DIM_QK][EMBEDDING], w_value[DIM_V][EMBEDDING];
static float other_embedded[OTHER_WORDS][EMBEDDING];

/* MT19937 (M. Matsumoto, T. Nishimura, "Mersenne Twister", 1998); a float has the lower 24 bits of a draw. */
struct twister {
    uint32_t state[624];
    size_t next;
};

static inline uint32_t twister_draw(struct twister *t)
{
    enum { COUNT = sizeof t->state / sizeof *t->state, MIDDLE = 397 };
    uint32_t *s = t->state;

    for (size_t n = 0; t->next == COUNT && n < COUNT; n++) {
        const uint32_t y = (s[n] & 0x80000000u) | (s[(n + 1) % COUNT] & 0x7fffffffu);
        s[n] = s[(n + MIDDLE) % COUNT] ^ y >> 1 ^ (y % 2 ? 0x9908b0dfu : 0);
    }
    t->next %= COUNT;
    uint32_t y = s[t->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static inline void draw_numbers(void)
{
    const struct {
        float *at;
        size_t rows;
    } matrices[] = {{&w_query[0][0], DIM_QK},
                    {&w_key[0][0], DIM_QK},
                    {&w_value[0][0], DIM_V},
                    {&other_embedded[0][0], OTHER_WORDS}};
    struct twister t = {.state = {123}, .next = sizeof t.state / sizeof *t.state};

    for (uint32_t n = 1; n < t.next; n++)
        t.state[n] = 1812433253u * (t.state[n - 1] ^ t.state[n - 1] >> 30) + n;
    for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++)
        for (size_t n = 0; n < matrices[m].rows * EMBEDDING; n++)
            matrices[m].at[n] = (float)(twister_draw(&t) & 0xffffffu) / 16777216.0f;
}

/* Printed by the tutorial with four decimals. */
static const float printed_scores[WORDS] = {
    8.5808f, -7.6597f, 3.2558f, 1.0395f, 11.1466f, -0.48f,
};

static const float printed_weights[WORDS] = {
    0.2912f, 0.0106f, 0.0982f, 0.0625f, 0.4917f, 0.0458f,
};

static const float printed_context[DIM_V] = {
    -1.5993f, 0.0156f,  1.267f,   0.0032f,  -0.646f,  -1.1407f, -0.4908f,
    -1.4632f, 0.4747f,  1.1926f,  0.4506f,  -0.711f,  0.0602f,  0.7125f,
    -0.1628f, -2.0184f, 0.3838f,  -2.1188f, -0.8136f, -1.5694f, 0.7934f,
    -0.2911f, -1.364f,  -0.2366f, -0.9564f, -0.5265f, 0.0624f,  1.7084f,
};

#endif
