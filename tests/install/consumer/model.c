/* A prediction, without MPI. */
#include <stdio.h>
#include <tugboat/model.h>

int main(void) {
    struct tug_model_parameters machine;
    struct tug_model_prediction ways[TUG_MODEL_WAYS];
    const struct tug_model_shape shape = {.nodes = 12, .ppn = 4};
    uint32_t count = 0;
    if (tug_model_named("fx100", &machine) != 0 ||
        tug_model_bcast(&shape, 16 << 20, &machine, ways, &count) != 0 || count == 0)
        return 1;
    printf("%s %s: %.3g s\n", ways[0].algorithm, ways[0].phases, ways[0].seconds);
    return ways[0].seconds <= 0;
}
