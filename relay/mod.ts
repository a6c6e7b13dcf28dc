/**
 * The data path of userspace mode: listens for redirected connections and carries TCP and UDP to endpoints. It has no
 * rules: backends redirect to its ports. It serves node ports on loopback addresses the same way, without a rule.
 *
 *   contract.ts     the relay's interface, its limits and their defaults
 *   listeners.ts    the listeners of service ports: where each listens, and why that can fail
 *   target.ts       the endpoints behind a listener, and the choice among them: session affinity, endpoints that failed
 *   connections.ts  TCP connections, to the first endpoint that accepts
 *   udp_flows.ts    UDP flows, until they are idle
 *   file_watch.ts   a lack of files
 *   counts.ts      the counters, and counts by service port and endpoint for traffic metrics
 *   network.ts      the sockets of the system
 *
 * A redirected client can also connect to a relay's port directly, past the checks of the rules (source ranges): a backend
 * that redirects must drop what arrives at these ports without having been redirected.
 *
 * In: deltas, connections, datagrams. Out: ports, problems, metrics. May touch: the network.
 */
import { type FamilyDelta, type Protocol, type ServicePortKey, servicePortKey } from "../core/model/mod.ts";
import { createTurns, limitRepeats, UNSPECIFIED_ADDRESS, waitAtMost } from "../platform/mod.ts";
import { createChooser } from "./target.ts";
import { createConnections } from "./connections.ts";
import type { Relay, RelayOptions, RelayUpdate } from "./contract.ts";
import { createCounters, createRelayTraffic } from "./counts.ts";
import { createFileWatch } from "./file_watch.ts";
import { createListeners, createPortChoice, type OpenInRange } from "./listeners.ts";
import { systemNetwork } from "./network.ts";
import { createUdpFlows } from "./udp_flows.ts";
export * from "./contract.ts";
export type { RelayCounts } from "./counts.ts";
export type { RelayNetwork } from "./network.ts";

/** The time for which a stop waits for open connections. */
const STOP_MS = 5_000;

/** Creates a relay without listeners. */
export function createRelay(options: RelayOptions): Relay {
  const { family, placement, limits, clock, network = systemNetwork } = options;
  const logger = limitRepeats(options.logger, clock);
  const counters = createCounters();
  const traffic = createRelayTraffic();
  const files = createFileWatch({
    clock,
    probe: () => network.bindUdp(UNSPECIFIED_ADDRESS[family], 0).close(),
    onRecovered() {
      logger.warn("too many files were open: opening all listeners again");
      void turns.take(() => listeners.renew());
    },
  });
  const parts = { family, network, chooser: createChooser(options), limits, counters, traffic, clock, logger, files };
  const connections = createConnections(parts), flows = createUdpFlows(parts);
  // SCTP is not relayed.
  const choices: Partial<Record<Protocol, OpenInRange>> | undefined = options.ports && {
    tcp: createPortChoice(options.ports, clock),
    udp: createPortChoice(options.ports, clock),
  };
  const listeners = createListeners({
    ...{ family, placement, counters, clock },
    async listen({ list, address, port }, target) {
      const { protocol } = target.servicePort;
      const open = async (at: number) =>
        protocol === "udp"
          ? flows.listen(address, at, target)
          : await network.listenTcp(address, at, (client) => connections.accept(client, target));
      const choice = port === 0 ? choices?.[protocol] : undefined;
      return await (choice?.(`${target.key} ${list}`, open) ?? open(port));
    },
  });

  /** The service ports from before the first batch of a whole state, until its last one says which of them stay. */
  let doubtful = new Set<ServicePortKey>();
  const assignAll = async (delta: FamilyDelta): Promise<RelayUpdate> => {
    // The kernel counts what goes past node ports at localhost.
    if (delta.settings) traffic.follow(placement.by === "redirect" && delta.settings.countTraffic === true);
    if (delta.base === undefined) doubtful = new Set(listeners.keys());
    for (const { name, protocol } of delta.set) doubtful.delete(servicePortKey(name, protocol));
    const isComplete = delta.part !== "head";
    for (const key of isComplete ? [...delta.deleted, ...doubtful] : delta.deleted) listeners.delete(key);
    // Else each later delta would go through them again.
    if (isComplete) doubtful.clear();
    for (const servicePort of delta.set) listeners.assign(servicePort);
    await listeners.openMissing();
    return { ports: listeners.ports, problems: listeners.problems() };
  };

  const turns = createTurns();
  return {
    apply: (delta) => turns.take(() => assignAll(delta)),
    counts: () => ({ ...counters }),
    takeTraffic: traffic.take,
    async stop() {
      await turns.ended();
      listeners.closeAll();
      files.stop();
      await waitAtMost(clock, STOP_MS, connections.drained());
      connections.resetAll();
      logger.flush();
    },
  };
}
