/**
 * The source for the nodes of a site behind one uplink: one node, elected through a Lease, watches the API server, and serves
 * the others with the protocol of `sluice serve`.
 *
 *   lease.ts         the Lease and the members of a site at the API server
 *   elector.ts       decides who leads, from the observed versions of the Lease
 *   election.ts      carries out the decisions, and follows a leader or succeeds it
 *   feed.ts          watches the leader or the API server, depending on the role
 *   serve.ts         serves the other nodes while this one leads
 *   part.ts          this node's part, for status, metrics and Events
 *   memory.ts        stores the last leader on disk
 *   certificates.ts  the certificates of the nodes, how a leader makes its own, and the signatures of leaders
 *   options.ts       the settings and their checks, and the names of the objects at the API server
 *
 * In: a Lease, and objects of the API server or of the leader. Out: objects, to a `SourceSink`, and to the other nodes. May
 * touch: the network, listening sockets, PEM files, and a file that is opened before the write permission is dropped.
 */
import type { SourceSink } from "../../core/objects/mod.ts";
import { abortedBy, joinHostPort } from "../../platform/mod.ts";
import { createStore, type Store } from "../../kpng/store/mod.ts";
import type { WireAddress } from "../../kpng/address/mod.ts";
import type { ClusterAccess, FeatureSource } from "../contract.ts";
import { certificatesOf, type SiteCertificates } from "./certificates.ts";
import { createElection, type ElectionTiming } from "./election.ts";
import { LONGEST_LEASE_MS, readSiteAddress, type SiteOptions } from "./options.ts";
import { createFeed } from "./feed.ts";
import { createLeaseClient, type Leader } from "./lease.ts";
import { openSiteMemory, type SiteMemory } from "./memory.ts";
import { createSitePart } from "./part.ts";
import { addressOfNode, createSiteServer, readServerAddress } from "./serve.ts";

/** Takes part in the configured site. */
export function openSource(cluster: ClusterAccess, { site }: { readonly site: SiteOptions }): FeatureSource {
  return createSiteSource(cluster, {
    site: site.name,
    leaseNamespace: site.leaseNamespace,
    timing: { leaseMs: site.leaseDurationMs, renewMs: site.renewPeriodMs, longestLeaseMs: LONGEST_LEASE_MS },
    listen: readSiteAddress(site.listenAddress)!,
    advertisedHost: site.advertiseAddress || undefined,
    certificates: certificatesOf(site),
  });
}

interface SiteSourceOptions {
  readonly site: string;
  readonly leaseNamespace: string;
  readonly timing: ElectionTiming & {
    /** The longest Lease that a configuration permits. */
    readonly longestLeaseMs: number;
    /** The time without an answer of the leader, from the end of its Lease, after which a node watches the API server; 20 s by default. */
    readonly patienceMs?: number;
  };
  /** The address on which this node serves while it leads. */
  readonly listen: WireAddress & { readonly kind: "tcp" };
  /** The host of this node for the others; its Node's first address if undefined. */
  readonly advertisedHost: string | undefined;
  readonly certificates: SiteCertificates;
}

const PATIENCE_MS = 20_000;
/** The delays of a follower that cannot connect to its leader. */
const RECONNECT = { firstMs: 250, longestMs: 5_000 };
/** When a follower probes a silent leader: there are few nodes in a site, and a dead leader must be noticed soon. */
const LIVENESS = { probeAfterMs: 5_000, answerMs: 5_000 };

/** Creates the source. Nothing is sent before it runs. */
export function createSiteSource(cluster: ClusterAccess, options: SiteSourceOptions): FeatureSource {
  const store = createStore({ clock: cluster.clock, onProblems: () => {} });
  const part = createSitePart(options.site, cluster);
  return {
    startRun: part.startRun,
    tee: (sink) => teeOf(store, sink),
    *objects() {
      const { services, scoped } = store.state();
      yield* scoped;
      for (const { service, slices } of services) {
        if (service !== undefined) yield service;
        yield* slices;
      }
    },
    async run(sink, signal) {
      const memory = await openSiteMemory(cluster.file, cluster.logger);
      const ending = abortedBy(signal);
      const shared = { cluster, options, store, part, memory };
      const { feed, election, server } = joinSite({ ...shared, sink, signal: ending.signal });
      try {
        await Promise.race([feed.ended, Promise.all([election.run(ending.signal), server.run(ending.signal)])]);
      } finally {
        ending.abort();
        await memory.written();
      }
    },
  };
}

interface SiteRun {
  readonly cluster: ClusterAccess;
  readonly options: SiteSourceOptions;
  readonly store: Store;
  readonly part: ReturnType<typeof createSitePart>;
  readonly memory: SiteMemory;
  readonly sink: SourceSink;
  readonly signal: AbortSignal;
}

/** Connects the feed, the election and the server of a run, with the node's role before the election. */
function joinSite(run: SiteRun) {
  const { cluster: { nodeName, api, watchApi, watchServer, onLink, clock, logger }, options, part, memory, sink } = run;
  const { site, listen, timing, certificates } = options;
  const { leaseMs, longestLeaseMs: longestMs, patienceMs = PATIENCE_MS } = timing;
  const server = createSiteServer({
    ...{ listen, members: memory.members(), store: run.store, onProblems: sink.problems, clock, logger },
    readTls: (members) => certificates.server(memory, members),
  });
  const feed = createFeed({
    ...{ sink, openApi: watchApi, onLink, clock, logger, signal: run.signal },
    async openLeader(leader, onLink) {
      const tls = await certificates.client(leader);
      const address = readServerAddress(leader.address);
      return await watchServer({ address, tls, backoff: RECONNECT, liveness: LIVENESS }, onLink);
    },
    // Spread, since all nodes lose their leader at the same moment.
    patienceMs: () => leaseMs + patienceMs * (1 + Math.random()),
    onLost: () => election.lost(),
    onFollowed: () => election.followed(),
    onFrom: () => report(),
  });
  const report = () => part.enter(election.role(), feed.from(), election.transitions());
  const election = createElection({
    ...{ node: nodeName, onStandBy: feed.standBy, memory, timing, onProblems: sink.problems, clock, logger },
    lease: createLeaseClient({ api, namespace: options.leaseNamespace, site, leaseMs, longestMs, clock }),
    self: (signal) => selfAsLeader(run, signal),
    isProven: ({ node, address, certificate, proof }) =>
      certificates.isProven({ site, node, address, certificate }, proof),
    onRole(role) {
      feed.enter(role);
      server.enter(role);
      report();
    },
    onMembers(members) {
      memory.rememberMembers(members);
      server.admit(members);
    },
  });
  feed.enter(election.role());
  report();
  return { feed, election, server };
}

async function selfAsLeader({ cluster, options, store, memory }: SiteRun, signal: AbortSignal): Promise<Leader> {
  const { nodeName: node, api } = cluster, { site, certificates } = options;
  const host = options.advertisedHost ?? store.node(node)?.addresses[0] ?? await addressOfNode(api, node, signal);
  const certificate = await certificates.published(memory);
  const claim = { node, address: joinHostPort(host, options.listen.port), certificate };
  return { ...claim, proof: await certificates.prove({ site, ...claim }) };
}

/** A sink that passes everything to both; problems go to the second one only. */
function teeOf(first: SourceSink, second: SourceSink): SourceSink {
  const both = <T>(one: (given: T) => void, other: (given: T) => void) => (given: T) => {
    one(given);
    other(given);
  };
  return {
    set: both(first.set, second.set),
    delete: both(first.delete, second.delete),
    reset: both(first.reset, second.reset),
    synced: both(first.synced, second.synced),
    problems: second.problems,
  };
}
