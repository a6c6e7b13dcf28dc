/** Adds relays to the families' workers, each in a worker of its own with no right but that to use the network. */
import { describeMode } from "../backends/mod.ts";
import type { FamilyLink, FamilyListener, FamilyOptions, RelaySettings, StartFamily } from "../core/channel/mod.ts";
import type { FamilySettings } from "../core/model/mod.ts";
import { type Family, isLoopback, sameData } from "../platform/mod.ts";
import type { RelayPlacement } from "../relay/mod.ts";
import type { WorkerCode } from "./protocol.ts";
import { ANY_ADDRESS, linkThroughRelay } from "./relay_link.ts";
import type { FromRelay, RelayStart, ToRelay } from "./relay_protocol.ts";
import { type RelayWorker, startRelayWorker } from "./relay_worker.ts";
import type { Watchable, WorkerListener } from "./watched_worker.ts";
import { createWebWorker, UNREADABLE, workerEntry } from "./web_worker.ts";

const LOCALHOST: Readonly<Record<Family, string>> = { IPv4: "127.0.0.1", IPv6: "::1" };

/** A relay that waits for the next start of its family. */
interface Kept {
  readonly relay: RelayWorker;
  readonly start: RelayStart;
}

/**
 * Returns a function that starts a family's worker, with a relay if its options have settings for one. A family that is
 * started again with the same settings keeps its relay and the open connections.
 */
export function withRelays(startFamily: StartFamily): StartFamily {
  const kept = new Map<Family, Kept>();
  return (options, listener) => {
    const { family, relay: settings } = options;
    if (settings === undefined) {
      const before = kept.get(family);
      kept.delete(family);
      return before ? startAfter(before.relay, startFamily, options, listener) : startFamily(options, listener);
    }
    const startOf = (placement: RelayPlacement) => relayStart(options, settings, placement);
    return linkThroughRelay({
      startFamily,
      family: options,
      listener,
      placement: (familySettings) => placementOf(family, familySettings, ownAddresses()),
      takeRelay(placement) {
        const start = startOf(placement), before = kept.get(family);
        kept.delete(family);
        if (before && sameData(before.start, start)) return before.relay;
        before?.relay.stop();
        return startRelayWorker({ start, spawn: (events) => spawnRelay(family, events), ...options });
      },
      keepRelay: (relay, placement) => kept.set(family, { relay, start: startOf(placement) }),
    });
  };
}

/** Starts a family that needs no relay any more: the one before it ends when no rule leads to it. */
function startAfter(
  relay: RelayWorker,
  startFamily: StartFamily,
  options: FamilyOptions,
  listener: FamilyListener,
): FamilyLink {
  const link = startFamily(options, {
    ...listener,
    onReport(report) {
      if (report.ok && report.full) relay.stop();
      listener.onReport(report);
    },
  });
  return {
    ...link,
    async stop(stopOptions) {
      await Promise.all([link.stop(stopOptions), relay.stop()]);
    },
  };
}

function relayStart(
  { family, logLevel, logFormat }: FamilyOptions,
  settings: RelaySettings,
  placement: RelayPlacement,
): RelayStart {
  return { type: "start", family, placement, settings, logLevel, logFormat };
}

/**
 * The place of the relay. Datagrams need an address of this node, since their answers must come from the address that the
 * rules sent them to.
 */
export function placementOf(
  family: Family,
  { mode, nodeIP, localhostNodePorts }: FamilySettings,
  ownAddresses: readonly string[],
): RelayPlacement | undefined {
  switch (describeMode(mode).relay) {
    case "none":
      return undefined;
    case "localhost-node-ports":
      return localhostNodePorts ? { by: "localhost-node-ports", addresses: [LOCALHOST[family]] } : undefined;
    case "services": {
      const isOwn = !isLoopback(nodeIP) && ownAddresses.includes(nodeIP);
      return { by: "redirect", udpAddress: isOwn ? nodeIP : ANY_ADDRESS[family] };
    }
  }
}

function ownAddresses(): readonly string[] {
  return Deno.networkInterfaces().map(({ address }) => address);
}

/** The code of a family's relay worker, which may use the network and do nothing else. */
function relayCode(family: Family): WorkerCode {
  return { entry: workerEntry("relay"), name: `sluice-relay-${family}`, tools: [], network: true };
}

/** Starts the Web Worker of a family's relay. */
export function spawnRelay(family: Family, { onMessage, onFailure }: WorkerListener<FromRelay>): Watchable<ToRelay> {
  const worker = createWebWorker(relayCode(family), onFailure);
  worker.onmessage = ({ data }: MessageEvent<FromRelay>) => onMessage(data);
  worker.onmessageerror = () => onFailure(UNREADABLE);
  return { post: (message) => worker.postMessage(message), terminate: () => worker.terminate() };
}
