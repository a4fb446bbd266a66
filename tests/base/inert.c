/*
 * A process that never calls MPI: prints how many threads it has, and whether the library is in it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return 1;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        threads += entry->d_name[0] != '.';
    closedir(tasks);
    printf("threads %d, library %s\n", threads,
           dlsym(RTLD_DEFAULT, "tug_version") != NULL ? "loaded" : "not loaded");
    return 0;
}
