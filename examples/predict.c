/* The model: how a broadcast will be done on a machine, and how long it will take. No MPI. */
#include <stdio.h>
#include <tugboat/model.h>

int main(int argc, char **argv) {
    struct tug_model_parameters machine;
    struct tug_model_prediction ways[TUG_MODEL_WAYS];
    const struct tug_model_shape shape = {.nodes = 12, .ppn = 4};
    char why[256];
    uint32_t count;
    /* a file of `tugboat calibrate`, or a machine known by name */
    const int error = argc > 1 ? tug_model_read(argv[1], &machine, why, sizeof why)
                               : tug_model_named("fx100", &machine);
    if (error != 0) {
        fprintf(stderr, "%s\n", argc > 1 ? why : tug_strerror(error));
        return 1;
    }
    if (tug_model_bcast(&shape, 16 << 20, &machine, ways, &count) != 0)
        return 1;
    printf("16 MiB to %u nodes with %u processes each\n", shape.nodes, shape.ppn);
    for (uint32_t i = 0; i < count; i++)
        printf("  %-8s %-9s %8.3f ms\n", ways[i].algorithm, ways[i].phases, ways[i].seconds * 1e3);
    return 0;
}
