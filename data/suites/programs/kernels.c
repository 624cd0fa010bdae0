/* Programs in C: kernels NAME WORK [SIZE [SHAPE]]. Prints the seconds of the work and the peak memory in KiB. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __TINYC__
static int __builtin_popcountll(unsigned long long x) { int n = 0; for (; x; x &= x - 1) n++; return n; }
#endif
static long size, shape;
static volatile double sink;
static uint64_t state = 88172645463325252ULL;

static uint64_t drawn(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}

static int *numbers, *copy;
static int ascending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
static void set_numbers(void) {
    numbers = malloc(size * sizeof(int)); copy = malloc(size * sizeof(int));
    for (long i = 0; i < size; i++) numbers[i] = drawn() % 1000;
    if (shape == 1) qsort(numbers, size, sizeof(int), ascending);
}
static void sort(void) { memcpy(copy, numbers, size * sizeof(int)); qsort(copy, size, sizeof(int), ascending); sink = copy[0]; }
static void heap(void) {
    memcpy(copy, numbers, size * sizeof(int));
    for (long n = size, start = n / 2;;) {
        if (start > 0) start--; else { if (--n <= 0) break; int t = copy[n]; copy[n] = copy[0]; copy[0] = t; }
        long root = start; int value = copy[root];
        for (long child; (child = 2 * root + 1) < n; root = child) {
            if (child + 1 < n && copy[child] < copy[child + 1]) child++;
            if (value >= copy[child]) break;
            copy[root] = copy[child];
        }
        copy[root] = value;
    }
    sink = copy[0];
}
static void branches(void) {
    long sum = 0;
    for (long i = 0; i < size; i++) {
        if (numbers[i] >= 500) { sum += numbers[i]; if (sum & 1) sum ^= 3; } else if (numbers[i] & 2) sum -= 1; else sum = sum * 3 & 0xffff;
    }
    sink = sum;
}
static void sums(void) { long sum = 0; for (long i = 0; i < size; i++) sum += numbers[i] * (long)numbers[i]; sink = sum; }
static void scan(void) { for (long i = 1; i < size; i++) copy[i] = (copy[i - 1] >> 1) + numbers[i]; sink = copy[size - 1]; }

static uint32_t *table; static long mask;
static void set_table(void) { mask = shape > 0 ? shape - 1 : 65535; table = malloc((mask + 1) * sizeof(uint32_t)); }
static void hash(void) {
    memset(table, 0, (mask + 1) * sizeof(uint32_t));
    long found = 0;
    for (long i = 1; i <= size; i++) {
        uint32_t key = i * 2654435761u | 1; long at = key & mask;
        while (table[at] && table[at] != key) at = (at + 1) & mask;
        table[at] = key;
    }
    for (long i = 1; i <= size; i++) {
        uint32_t key = (i * 2) * 2654435761u | 1; long at = key & mask;
        while (table[at] && table[at] != key) at = (at + 1) & mask;
        found += table[at] == key;
    }
    sink = found;
}

static double *left, *right, *out;
static void set_matrix(void) {
    left = malloc(size * size * sizeof(double)); right = malloc(size * size * sizeof(double)); out = malloc(size * size * sizeof(double));
    for (long i = 0; i < size * size; i++) left[i] = right[i] = (drawn() % 100) / 7.0;
}
static void matrix(void) {
    memset(out, 0, size * size * sizeof(double));
    if (shape == 1)
        for (long i = 0; i < size; i++) for (long j = 0; j < size; j++) { double s = 0; for (long k = 0; k < size; k++) s += left[i * size + k] * right[k * size + j]; out[i * size + j] = s; }
    else
        for (long i = 0; i < size; i++) for (long k = 0; k < size; k++) { double f = left[i * size + k]; for (long j = 0; j < size; j++) out[i * size + j] += f * right[k * size + j]; }
    sink = out[size];
}
static void stencil(void) {
    for (long i = 1; i < size - 1; i++) for (long j = 1; j < size - 1; j++) {
        long at = shape == 1 ? j * size + i : i * size + j;
        out[at] = (left[at - 1] + left[at + 1] + left[at - size] + left[at + size]) * 0.25;
    }
    sink = out[size + 1];
}

static char *text;
static void set_text(void) {
    text = malloc(size + 1);
    for (long i = 0; i < size; i++) text[i] = 'a' + drawn() % (shape > 0 ? shape : 20);
    text[size] = 0;
}
static void search(void) { long n = 0; for (char *at = text; (at = strstr(at, "abca")); at++) n++; sink = n; }
static void naive(void) {
    long n = 0; const char *word = "abca";
    for (long i = 0; i + 4 <= size; i++) { long k = 0; while (k < 4 && text[i + k] == word[k]) k++; n += k == 4; }
    sink = n;
}
static void histogram(void) { long counts[256] = {0}; for (long i = 0; i < size; i++) counts[(unsigned char)text[i]]++; sink = counts['c']; }
static void crc(void) {
    uint32_t c = ~0u;
    for (long i = 0; i < size; i++) { c ^= (unsigned char)text[i]; for (int k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320u & -(c & 1)); }
    sink = c;
}
static void format(void) { char line[128]; long n = 0; for (long i = 0; i < size; i++) n += snprintf(line, sizeof line, "%ld %s %.3f\n", i, "some words", i / 7.0); sink = n; }

static void allocate(void) {
    static void *held[512]; 
    for (long i = 0; i < size; i++) { long at = drawn() % 512; free(held[at]); long many = shape > 0 ? shape : 16 + drawn() % 800; held[at] = malloc(many); ((char *)held[at])[0] = 1; }
    sink = held[0] != 0;
}
struct node { struct node *left, *right; long key; };
static struct node *grown(long depth) {
    struct node *one = malloc(sizeof *one);
    one->key = depth;
    one->left = depth > 0 ? grown(depth - 1) : NULL; one->right = depth > 0 ? grown(depth - 1) : NULL;
    return one;
}
static long felled(struct node *one) { if (!one) return 0; long n = 1 + felled(one->left) + felled(one->right); free(one); return n; }
static void trees(void) { sink = felled(grown(size)); }

static void **chain;
static void set_chain(void) {
    long *order = malloc(size * sizeof(long)); chain = malloc(size * 64);
    for (long i = 0; i < size; i++) order[i] = i;
    if (shape == 0) for (long i = size - 1; i > 0; i--) { long j = drawn() % (i + 1), t = order[i]; order[i] = order[j]; order[j] = t; }
    for (long i = 0; i < size; i++) chain[order[i] * 8] = &chain[order[(i + 1) % size] * 8];
    free(order);
}
static void chase(void) { void **at = chain; for (long i = 0; i < 20000; i++) at = *at; sink = at != 0; }

static void mandelbrot(void) {
    long n = 0;
    for (long y = 0; y < size; y++) for (long x = 0; x < size; x++) {
        double cr = 2.5 * x / size - 2, ci = 2.0 * y / size - 1, r = 0, i = 0; int k = 0;
        for (; k < 60 && r * r + i * i < 4; k++) { double t = r * r - i * i + cr; i = 2 * r * i + ci; r = t; }
        n += k;
    }
    sink = n;
}
static void transcendental(void) { double s = 0; for (long i = 1; i < size; i++) s += sin(i) * exp(-i / 1000.0) + sqrt(i); sink = s; }
static void bits(void) { long n = 0; for (long i = 0; i < size; i++) n += __builtin_popcountll(i * 0x9e3779b97f4a7c15ULL); sink = n; }
static long called(long n, long m) { return m == 0 ? n + 1 : n == 0 ? called(1, m - 1) : called(called(n - 1, m), m - 1); }
static void calls(void) { sink = called(size, 2); }
static char *from, *to;
static void set_copy(void) { from = malloc(size); to = malloc(size); memset(from, 1, size); }
static void copies(void) { if (shape > 0) for (long i = 0; i < size; i += shape) memcpy(to + i, from + i, shape); else memcpy(to, from, size); sink = to[size / 2]; }
static void nothing(void) {}
static void hold(void) { static char *held; if (!held) { held = malloc(size << 10); memset(held, 1, size << 10); } sink = held[0]; }
static void pieces(void) {
    static char **held;
    if (held) return;
    held = malloc(size * sizeof *held);
    for (long i = 0; i < size; i++) { held[i] = malloc(shape > 0 ? shape : 40); held[i][0] = 1; }
}

static const struct { const char *name; void (*set)(void), (*unit)(void); long size; } programs[] = {
    {"sort", set_numbers, sort, 2000}, {"heap", set_numbers, heap, 2000}, {"branches", set_numbers, branches, 20000},
    {"sums", set_numbers, sums, 20000}, {"scan", set_numbers, scan, 20000}, {"hash", set_table, hash, 10000},
    {"matrix", set_matrix, matrix, 60}, {"stencil", set_matrix, stencil, 200}, {"search", set_text, search, 50000},
    {"naive", set_text, naive, 20000}, {"histogram", set_text, histogram, 30000}, {"crc", set_text, crc, 5000},
    {"format", nothing, format, 200}, {"allocate", nothing, allocate, 2000}, {"trees", nothing, trees, 10},
    {"chase", set_chain, chase, 60000}, {"mandelbrot", nothing, mandelbrot, 30}, {"transcendental", nothing, transcendental, 1000},
    {"bits", nothing, bits, 20000}, {"calls", nothing, calls, 200}, {"copies", set_copy, copies, 200000},
    {"hold", nothing, hold, 20000}, {"pieces", nothing, pieces, 200000},
};

static long peak(void) {
    char line[256]; long kib = 0; FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    return kib;
}

int main(int argc, char **argv) {
    struct timespec begin, end;
    if (argc < 3) return 2;
    for (unsigned long i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (strcmp(programs[i].name, argv[1])) continue;
        long work = atol(argv[2]);
        size = argc > 3 ? atol(argv[3]) : programs[i].size;
        shape = argc > 4 ? atol(argv[4]) : 0;
        programs[i].set(); programs[i].unit();
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (work-- > 0) programs[i].unit();
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.9f %ld\n", end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9, peak());
        return 0;
    }
    return 2;
}
