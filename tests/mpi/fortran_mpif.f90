! fortran_mpif: one-sided calls and persistent broadcasts through mpif.h.
program fortran_mpif
    implicit none
    include 'mpif.h'
    include 'fortran_classic.inc'
end program fortran_mpif
