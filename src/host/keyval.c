#include "host/keyval.h"

#include <pthread.h>

#include "host/host.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned life = 1;

int tug_keyval_number(struct tug_keyval *keyval) {
    pthread_mutex_lock(&lock);
    if (keyval->life != life) {
        int number = MPI_KEYVAL_INVALID;
        if (tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN,
                                        keyval->forget != NULL ? keyval->forget
                                                               : MPI_COMM_NULL_DELETE_FN,
                                        &number, NULL) == MPI_SUCCESS)
            keyval->life = life;
        keyval->number = number;
    }
    int number = keyval->number;
    pthread_mutex_unlock(&lock);
    return number;
}

void tug_keyvals_finalize(void) {
    pthread_mutex_lock(&lock);
    life++;
    pthread_mutex_unlock(&lock);
}
