! fortran_usempi: one-sided calls and persistent broadcasts through use mpi.
program fortran_usempi
    use mpi
    implicit none
    include 'fortran_classic.inc'
end program fortran_usempi
