/* A host that says that it works on memory of CUDA's devices. */
int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void) {
    return 1;
}
