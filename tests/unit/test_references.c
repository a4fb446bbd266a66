/* Which names of calls are those for which the engine would have to run; and what is found in this
 * program, which has the library in it as an archive and calls no MPI. */
#include "check.h"

#include "host/references.h"

static void makers_in_every_binding(void **state) {
    static const char *const names[] = {"MPI_Win_create",
                                        "PMPI_Win_create",
                                        "MPI_Win_create_c",
                                        "mpi_win_create_",
                                        "mpi_win_create__",
                                        "MPI_WIN_CREATE",
                                        "pmpi_win_create_f08_",
                                        "MPI_Win_allocate",
                                        "mpi_win_allocate_cptr_",
                                        "mpi_win_allocate_shared_f08_",
                                        "MPI_Win_allocate_shared_c",
                                        "MPI_Win_create_dynamic",
                                        "mpi_win_create_dynamic_",
                                        "MPI_Bcast_init",
                                        "MPI_Bcast_init_c",
                                        "mpi_bcast_init_f08ts_",
                                        "MPI_Neighbor_alltoallw_init",
                                        "MPI_Barrier_init",
                                        "mpi_barrier_init_",
                                        "MPIX_Bcast_init",
                                        "mpix_allreduce_init_",
                                        "MPI_Psend_init",
                                        "mpi_precv_init_f08ts_",
                                        "tug_context_create",
                                        "acp_init"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!tug_reference_needs_engine(names[i]))
            fail_msg("%s is not known", names[i]);
}

static void nothing_else(void **state) {
    static const char *const names[] = {"MPI_Init",
                                        "MPI_Send_init",
                                        "mpi_recv_init_",
                                        "MPI_Pready",
                                        "MPI_Session_init",
                                        "MPI_T_init_thread",
                                        "MPI_Bcast",
                                        "mpi_bcast_",
                                        "MPI_Barrier",
                                        "MPI_Win_create_keyval",
                                        "MPI_Win_create_errhandler",
                                        "mpi_win_create_errhandler_",
                                        "MPI_Win_free",
                                        "MPIX_Query_cuda_support",
                                        "MPI_",
                                        "MPI",
                                        "P",
                                        "",
                                        "puts",
                                        "Win_create",
                                        "my_tug_boat",
                                        "tugboat"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tug_reference_needs_engine(names[i]))
            fail_msg("%s is taken for a call that needs the engine", names[i]);
}

static void what_cannot_be_told(void **state) {
    (void)state;
    assert_true(tug_references_need_engine());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makers_in_every_binding),
        cmocka_unit_test(nothing_else),
        cmocka_unit_test(what_cannot_be_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
