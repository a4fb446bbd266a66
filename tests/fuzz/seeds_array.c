/* Writes the seeds of the fuzz target of arrays: random scripts, of operations, of steps and of
 * lies in different proportions. Usage: fuzz_seeds_array FOLDER. */
#include <stdio.h>

static unsigned seed = 3;

static unsigned chance(void) {
    seed = seed * 1103515245 + 12345;
    return seed >> 16;
}

/* Of each 8 things `steps` are steps, and the others operations, of which some are lies. */
static int write_script(FILE *file, unsigned things, unsigned steps, unsigned lies) {
    int failed = 0;
    for (unsigned i = 0; i < things; i++) {
        const unsigned what = chance() % 8 < steps  ? 96 + chance() % 160
                              : chance() % 8 < lies ? 64 + chance() % 16
                              : chance() % 16 == 0  ? 80 + chance() % 16
                                                    : chance() % 64;
        const unsigned more = what < 64 ? 4 : what < 80 ? 12 : what < 96 ? 2 : chance() % 3;
        failed |= fputc((int)what, file) == EOF;
        for (unsigned k = 0; k < more; k++)
            failed |= fputc((int)(chance() & 255), file) == EOF;
    }
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (unsigned which = 0; which < 60; which++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/chance-%u", argv[1], which);
        FILE *file = fopen(path, "wb");
        if (file == NULL) {
            perror(path);
            return 1;
        }
        failed |= write_script(file, 40 + which * 10, 3 + which % 4, which % 5);
        failed |= fclose(file) != 0;
    }
    return failed;
}
