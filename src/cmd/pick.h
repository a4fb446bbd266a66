/* Which MPI a command uses: its program's libraries say, then its launcher. */
#ifndef TUG_CMD_PICK_H
#define TUG_CMD_PICK_H

#include <limits.h>
#include <stdbool.h>

enum tug_mpi { TUG_MPI_UNKNOWN, TUG_MPI_MPICH, TUG_MPI_OPENMPI, TUG_MPI_FOREIGN, TUG_NMPI };

struct tug_pick {
    enum tug_mpi program, launcher;
    const char *program_word, *launcher_word; /* words of the command, or NULL */
    char library[NAME_MAX + 1];               /* the MPI library that the program names */
};

/* The MPI that this command was compiled for. */
extern const enum tug_mpi tug_mpi_own;

/* "MPICH", as users know it, and "mpich", as files are named after it. */
extern const char *const tug_mpi_titles[TUG_NMPI], *const tug_mpi_names[TUG_NMPI];

/* The names that its launcher may have, the surest first; ends with NULL. */
const char *const *tug_mpi_launchers(enum tug_mpi mpi);

/* The MPI of a launcher, by its file, or by what it says of its version. */
enum tug_mpi tug_mpi_of_launcher(const char *word);

/* Looks at the words of a command. What is not known stays TUG_MPI_UNKNOWN. */
void tug_pick_command(int argc, char **argv, struct tug_pick *pick);

/* The MPI that decides. */
enum tug_mpi tug_pick_mpi(const struct tug_pick *pick);

/* Program and launcher are known, and of two MPIs. */
bool tug_pick_is_wrong(const struct tug_pick *pick);

/* The first launcher of this MPI in PATH; NULL when there is none. */
const char *tug_mpi_find_launcher(enum tug_mpi mpi);

#endif
