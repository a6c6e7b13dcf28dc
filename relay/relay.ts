/** One family's relay: applies deltas, one after the other. */
import type { FamilyDelta, ServicePortKey } from "../core/model/mod.ts";
import { servicePortKey } from "../core/model/mod.ts";
import { limitRepeats, sleep } from "../platform/mod.ts";
import { createAffinityTable } from "./affinity.ts";
import { createConnections } from "./connections.ts";
import type { Relay, RelayOptions, RelayUpdate } from "./contract.ts";
import { createCounters } from "./figures.ts";
import { createFileWatch } from "./file_watch.ts";
import { createListeners } from "./listeners.ts";
import { systemNetwork } from "./network.ts";
import { createChooser } from "./target.ts";
import { createRelayTraffic } from "./traffic.ts";
import { createUdpFlows } from "./udp_flows.ts";

/** Creates a relay without listeners. */
export function createRelay(options: RelayOptions): Relay {
  const { family, placement, limits, clock, network = systemNetwork, random = Math.random } = options;
  const logger = limitRepeats(options.logger, clock);
  const counters = createCounters();
  const traffic = createRelayTraffic();
  const affinity = createAffinityTable(clock, limits.affinityClients);
  const chooser = createChooser(affinity, random, options.mayConnect);
  const files = createFileWatch({
    clock,
    probe: () => network.bindUdp(family === "IPv4" ? "0.0.0.0" : "::", 0).close(),
    onRecovered() {
      logger.warn("too many files were open: opening all listeners again");
      void inTurn(() => listeners.renew());
    },
  });
  const connections = createConnections({ network, chooser, limits, counters, traffic, clock, logger, files });
  const flows = createUdpFlows({ family, network, chooser, limits, counters, traffic, clock, logger, files });
  const listeners = createListeners({
    ...{ family, placement, limits, counters, clock },
    async listen({ address, port }, target) {
      if (target.servicePort.protocol === "udp") return flows.listen(address, port, target);
      return await network.listenTcp(address, port, (client) => connections.accept(client, target));
    },
  });

  /** The service ports from before the head of a whole state, until its rest has named those that stay. */
  let doubtful = new Set<ServicePortKey>();
  const assignAll = async (delta: FamilyDelta): Promise<RelayUpdate> => {
    // The kernel counts what goes past node ports at localhost.
    if (delta.settings) traffic.follow(placement.by === "redirect" && delta.settings.countTraffic === true);
    if (delta.base === undefined) doubtful = new Set(listeners.keys());
    for (const { name, protocol } of delta.set) doubtful.delete(servicePortKey(name, protocol));
    const isComplete = delta.part !== "head";
    for (const key of isComplete ? [...delta.deleted, ...doubtful] : delta.deleted) listeners.delete(key);
    if (isComplete) doubtful.clear();
    for (const servicePort of delta.set) listeners.assign(servicePort);
    await listeners.openMissing();
    return { ports: listeners.ports, problems: listeners.problems() };
  };

  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <Result>(step: () => Promise<Result>): Promise<Result> => {
    const done = last.then(step);
    last = done.catch(() => {});
    return done;
  };
  return {
    apply: (delta) => inTurn(() => assignAll(delta)),
    figures: () => ({ ...counters }),
    takeTraffic: traffic.take,
    async stop() {
      await last;
      listeners.closeAll();
      files.stop();
      const isOver = new AbortController();
      const timeout = sleep(clock, limits.stopMs, isOver.signal).catch(() => {});
      await Promise.race([connections.drained(), timeout]);
      isOver.abort();
      connections.resetAll();
      flows.closeAll();
      logger.flush();
    },
  };
}
