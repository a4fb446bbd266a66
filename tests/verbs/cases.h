/* The cases of test_verbs; CMakeLists.txt reads their names here. */
#ifndef TUG_TEST_VERBS_CASES_H
#define TUG_TEST_VERBS_CASES_H

/* clang-format off */
#define TUG_VERBS_CASES \
    CASE(device_opens) CASE(device_named) \
    CASE(pair_first_use) CASE(pair_both_at_once) CASE(pair_self) CASE(pair_foreign_messages) \
    CASE(shared_by_contexts) CASE(shared_met_at_once) CASE(shared_ends) CASE(shared_errors) CASE(shared_asks) \
    CASE(shared_messages) CASE(shared_moves) \
    CASE(kept_few) CASE(kept_in_use) CASE(kept_servers) CASE(kept_messages) CASE(kept_for_the_device) \
    CASE(data_write_sizes) CASE(data_read_sizes) CASE(data_carried) CASE(data_not_registered) \
    CASE(data_pieces) \
    CASE(atomic_each) CASE(atomic_not_taken) CASE(atomic_contended) CASE(atomic_fenced) \
    CASE(chain_one_post) CASE(chain_counted) CASE(chain_waits) CASE(chain_off) CASE(chain_overflow) \
    CASE(chain_narrow_queue) CASE(chain_mixed) CASE(chain_joined) CASE(chain_from_callbacks) \
    CASE(chain_from_on_local) \
    CASE(memory_inside) CASE(memory_named_again) CASE(memory_empty) CASE(memory_ended) \
    CASE(memory_ended_under_way) CASE(memory_threads) \
    CASE(origin_sizes) CASE(origin_around) CASE(origin_many) CASE(origin_kept) CASE(origin_overlapping) \
    CASE(origin_gone) CASE(origin_freed) CASE(origin_gone_under_way) CASE(origin_bounded) \
    CASE(origin_read_only) CASE(origin_refused) CASE(origin_of_parent) CASE(origin_restarts) \
    CASE(error_bad_key) CASE(error_bad_key_joined) CASE(error_bad_key_large) \
    CASE(error_then_large) CASE(error_invalid) CASE(error_local_queue) \
    CASE(error_out_of_memory_there) CASE(error_peer_gone) CASE(error_queue_pair) \
    CASE(error_not_taken) CASE(error_peer_silent) CASE(error_nobody_to_ask) \
    CASE(error_moves_in_vain) CASE(error_device_lost) \
    CASE(refused_here) CASE(refused_there) CASE(refused_to_join) CASE(refused_a_question) \
    CASE(refused_memory) \
    CASE(message_order) CASE(message_meets) CASE(message_without_room) CASE(message_not_taken) CASE(message_errors) \
    CASE(message_drained) CASE(message_twice) CASE(message_refused) CASE(message_ended) CASE(message_given_up) \
    CASE(message_wakes) CASE(message_counted) CASE(message_nothing) CASE(message_not_here) \
    CASE(sleep_wakes) CASE(sleep_costs_nothing) CASE(sleep_one_thread)
/* Gigabytes, which the stand-in alone moves in a second. */
#define TUG_STAND_IN_CASES STAND_IN(data_two_gib) TUG_RAILS_CASES TUG_PORTS_CASES
/* They want ports and events of their own. */
#define TUG_PORTS_CASES \
    STAND_IN(ports_connection) STAND_IN(ports_subnets) STAND_IN(ports_first_packets) \
    STAND_IN(ports_change) STAND_IN(ports_lost) STAND_IN(ports_last_request) \
    STAND_IN(ports_vectors) STAND_IN(ports_atomics)
/* They want several devices. */
#define TUG_RAILS_CASES \
    STAND_IN(rails_found) STAND_IN(rails_shares) STAND_IN(rails_apart) STAND_IN(rails_restart) \
    STAND_IN(rails_lost) STAND_IN(rails_first_lost) STAND_IN(rails_all_lost) \
    STAND_IN(rails_ports) STAND_IN(rails_port_lost) \
    STAND_IN(rails_refuse_memory) STAND_IN(rails_key_ended) STAND_IN(rails_without_tags) \
    STAND_IN(rails_wake) STAND_IN(rails_differ)
/* clang-format on */

#define CASE(name) void name(void **state);
#define STAND_IN(name) CASE(name)
TUG_VERBS_CASES
TUG_STAND_IN_CASES
#undef STAND_IN
#undef CASE

#endif
