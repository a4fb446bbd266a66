/* A second opinion on the simulator: the same schedules of the same 1 000 ranks, a node each, in
 * SimGrid.
 *
 *   second_opinion flat     a cluster whose nodes have one engine
 *   second_opinion torus    10x10x10, six engines a node
 *
 * There every queue is an actor that works off its descriptors: a scheduling pointer is a
 * semaphore, a message a communication between two hosts. The engines of a node are a semaphore of
 * which a sender holds one for as long as LogGP says; how fast data then flows, and what several
 * flows over one link or into one node do to each other, is SimGrid's own business (a fluid model,
 * without its corrections for TCP).
 *
 * Exit status 0: all times agree; 1: they do not. */
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

extern "C" {
#include "model/choose.h"
#include "model/simulate.h"
#include "schedule/bcast.h"
}

namespace s4u = simgrid::s4u;

namespace {

constexpr uint32_t NODES = 1000;
constexpr uint32_t SIDE = 10;
constexpr double WITHIN = 0.05;
/* Where messages share links, SimGrid lets them share and we one after another. */
constexpr double WITHIN_SHARED = 0.35;

/* The paper's, but for the engines. A link of the torus takes as long to pass as any other. */
tug_model_parameters machine_of(bool torus) {
    tug_model_parameters p = {};
    tug_model_named("fx100", &p);
    p.engines = torus ? 6 : 1;
    p.between.gap_s = 0;
    p.hop_s = p.between.latency_s;
    return p;
}

tug_model_parameters machine;

struct Rank {
    tug_schedule schedule;
    s4u::SemaphorePtr engines;
    std::vector<s4u::SemaphorePtr> limits; /* by queue; none: waits for nobody */
};

struct Job {
    tug_places places;
    tug_bcast_plan plan;
    std::vector<Rank> ranks;
};

s4u::Mailbox *mailbox_of(uint32_t from, uint32_t to, unsigned tag) {
    return s4u::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to) + ":" +
                                 std::to_string(tag));
}

void send(const Rank &rank, uint32_t self, const tug_descriptor &d, uint64_t bytes) {
    static char nothing;
    rank.engines->acquire();
    mailbox_of(self, d.peer, d.tag)->put_init(&nothing, bytes)->detach();
    s4u::this_actor::sleep_for(static_cast<double>(bytes) * machine.between.byte_s);
    rank.engines->release();
}

void work(const Rank &rank, uint32_t self, uint32_t number) {
    const tug_queue &queue = rank.schedule.queues[number];
    for (uint32_t i = 0; i < queue.count; i++) {
        const tug_descriptor &d = queue.descriptors[i];
        for (uint32_t s = 0; s < tug_descriptor_segments(&d); s++) {
            uint64_t offset;
            if (rank.limits[number])
                rank.limits[number]->acquire();
            if (d.kind == TUG_SEND)
                send(rank, self, d, tug_descriptor_at(&d, s, &offset));
            else if (d.kind == TUG_RECEIVE)
                mailbox_of(d.peer, self, d.tag)->get<char>();
            else
                std::abort(); /* with one rank a node there is nothing else */
            for (uint32_t l = 0; l < rank.schedule.nqueues; l++)
                for (uint32_t step = 0; d.advances >> l & 1 && step < d.steps; step++)
                    rank.limits[l]->release();
        }
    }
}

void compile(Job &job) {
    for (uint32_t r = 0; r < NODES; r++) {
        Rank &rank = job.ranks[r];
        if (tug_compile_bcast(&rank.schedule, &job.places, &job.plan, r) != 0)
            std::abort();
        rank.engines = s4u::Semaphore::create(machine.engines);
        for (uint32_t l = 0; l < rank.schedule.nqueues; l++) {
            uint32_t limit = rank.schedule.queues[l].limit;
            rank.limits.push_back(limit == TUG_LIMIT_ALL ? nullptr : s4u::Semaphore::create(limit));
        }
    }
}

/* What a zone is made in: SimGrid 4 has a root, and in SimGrid 3 the first zone is the root. */
s4u::NetZone *root_zone() {
#if SIMGRID_VERSION >= 40000
    return s4u::Engine::get_instance()->get_netzone_root();
#else
    return nullptr;
#endif
}

/* A node has a way out and a way in. */
std::vector<s4u::Host *> build_cluster() {
    std::vector<s4u::Host *> hosts;
    s4u::NetZone *cluster = s4u::create_star_zone("cluster");
    if (root_zone() != nullptr)
        cluster->set_parent(root_zone());
    for (uint32_t n = 0; n < NODES; n++) {
        std::string name = std::to_string(n);
        s4u::Host *host = cluster->create_host("node" + name, 1e9);
        const s4u::Link *link =
            cluster->create_split_duplex_link("link" + name, 1 / machine.between.byte_s)
                ->set_latency(machine.between.latency_s / 2)
                ->seal();
        cluster->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                           {{link, s4u::LinkInRoute::Direction::UP}}, true);
        hosts.push_back(host);
    }
    cluster->seal();
    return hosts;
}

/* Links between neighbours, for each direction one. */
std::vector<s4u::Host *> build_torus() {
    std::vector<s4u::Host *> hosts(NODES);
    auto make_host = [&hosts](s4u::NetZone *zone, const auto &, auto id) {
        hosts.at(id) = zone->create_host("node" + std::to_string(id), 1e9);
        s4u::Host *host = hosts.at(id);
#if SIMGRID_VERSION >= 40000
        return host;
#else
        return std::make_pair(host->get_netpoint(),
                              static_cast<simgrid::kernel::routing::NetPoint *>(nullptr));
#endif
    };
    s4u::create_torus_zone("torus", root_zone(), {SIDE, SIDE, SIDE},
                           s4u::ClusterCallbacks(make_host), 1 / machine.between.byte_s,
                           machine.between.latency_s, s4u::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();
    return hosts;
}

/* One broadcast, begun now; seconds. */
double in_simgrid(s4u::Engine &engine, const std::vector<s4u::Host *> &hosts, Job &job) {
    double start = s4u::Engine::get_clock();
    job.ranks.assign(NODES, Rank());
    compile(job);
    for (uint32_t r = 0; r < NODES; r++)
        for (uint32_t l = 0; l < job.ranks[r].schedule.nqueues; l++)
            s4u::Actor::create("queue", hosts[r], [&job, r, l] { work(job.ranks[r], r, l); });
    engine.run();
    for (Rank &rank : job.ranks)
        tug_schedule_fini(&rank.schedule);
    return s4u::Engine::get_clock() - start;
}

int compile_one(void *state, uint32_t rank, tug_schedule *schedule) {
    const Job *job = static_cast<const Job *>(state);
    return tug_compile_bcast(schedule, &job->places, &job->plan, rank);
}

double in_ours(Job &job) {
    char why[256] = "";
    tug_simulated result = {};
    tug_simulation simulation = {};
    simulation.places = &job.places;
    simulation.parameters = &machine;
    simulation.network.kind = job.places.torus[0] > 0 ? TUG_NETWORK_TORUS : TUG_NETWORK_FLAT;
    simulation.element_bytes = 1;
    simulation.message_bytes = job.plan.elements;
    simulation.slots = TUG_SIMULATED_SLOTS;
    simulation.compile = compile_one;
    simulation.state = &job;
    if (tug_simulate(&simulation, &result, why, sizeof(why)) != 0) {
        std::fprintf(stderr, "%s\n", why);
        std::exit(1);
    }
    return result.seconds;
}

} // namespace

int main(int argc, char **argv) {
    s4u::Engine engine(&argc, argv);
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/bandwidth-factor:1");
    s4u::Engine::set_config("network/latency-factor:1");
    s4u::Engine::set_config("network/weight-S:0");
    s4u::Engine::set_config("network/TCP-gamma:0");
    s4u::Engine::set_config("network/crosstraffic:0");
    s4u::Engine::set_config("contexts/stack-size:64");
    const bool torus = argc > 1 && std::string(argv[1]) == "torus";
    machine = machine_of(torus);
    const std::vector<s4u::Host *> hosts = torus ? build_torus() : build_cluster();
    Job job = {};
    bool agree = tug_places_uniform(&job.places, NODES, 1) == 0;
    for (uint32_t &side : job.places.torus)
        side = torus ? SIDE : 0;
    std::printf("%u ranks, a node each; microseconds\n%9s %10s %9s %12s %12s %7s\n", NODES, "bytes",
                "algorithm", "segment", "SimGrid", "ours", "ratio");
    for (int algorithm = TUG_CHAIN; algorithm < TUG_ALGORITHMS; algorithm++)
        for (uint64_t bytes : {UINT64_C(64), UINT64_C(65536), UINT64_C(1048576)}) {
            job.plan = {};
            job.plan.algorithm = static_cast<tug_algorithm>(algorithm);
            job.plan.elements = bytes;
            job.plan.segment = bytes > 64 ? bytes / 8 : bytes;
            double theirs = in_simgrid(engine, hosts, job);
            double ours = in_ours(job);
            double ratio = ours / theirs;
            double within = torus && algorithm == TUG_BINOMIAL ? WITHIN_SHARED : WITHIN;
            bool good = ratio > 1 - within && ratio < 1 + within;
            std::printf("%9llu %10s %9llu %12.2f %12.2f %7.3f%s\n",
                        static_cast<unsigned long long>(bytes),
                        tug_algorithm_name(job.plan.algorithm),
                        static_cast<unsigned long long>(job.plan.segment), theirs * 1e6, ours * 1e6,
                        ratio, good ? "" : "  <- differs");
            agree = agree && good;
        }
    tug_places_fini(&job.places);
    return agree ? 0 : 1;
}
