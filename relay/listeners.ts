/** The listeners of service ports: opens the listeners that a service port needs, and closes them once it is deleted. */
import {
  frontendsOf,
  isFrontendAt,
  nodePortOf,
  type PortRange,
  type RelayPorts,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncProblem,
} from "../core/model/mod.ts";
import { type Clock, errorText, type Family, familyOf, joinHostPort, UNSPECIFIED_ADDRESS } from "../platform/mod.ts";
import type { RelayOptions, RelayPlacement } from "./contract.ts";
import type { Counters } from "./counts.ts";
import { isOutOfFiles } from "./file_watch.ts";
import type { Listener } from "./network.ts";
import type { EndpointList, Target } from "./target.ts";

interface ListenersOptions extends Pick<RelayOptions, "family" | "placement" | "clock"> {
  readonly counters: Counters;
  /** Listens for the target, by the protocol of its service port. Rejects with the system's error. */
  readonly listen: (place: Place, target: Target) => Promise<Listener>;
}

/** The listeners of all service ports. */
interface Listeners {
  /** Gives a service port its new state: open listeners use it at once, `openMissing` opens missing ones. */
  assign(servicePort: ServicePort): void;
  /** Removes a service port. Its listeners on free ports serve its last state for 5 s, unless it is added again. */
  delete(key: ServicePortKey): void;
  /** Opens all missing listeners, including listeners that failed before. */
  openMissing(): Promise<void>;
  /** Closes all TCP listeners and opens them again on the same ports, since they may have stopped accepting. */
  renew(): Promise<void>;
  /** The service ports that were assigned. */
  keys(): ServicePortKey[];
  readonly ports: ReadonlyMap<ServicePortKey, RelayPorts>;
  problems(): SyncProblem[];
  closeAll(): void;
}

/** A service port and its listeners. */
interface Served {
  readonly targets: Readonly<Record<EndpointList, Target>>;
  /** By the name of their place. */
  readonly open: Map<string, { readonly place: Place; readonly listener: Listener }>;
  missing: readonly Place[];
  problem: string | undefined;
}

/** Listeners that are opened at the same time. */
const BATCH = 64;
/** The time for which the listener of a deleted service port stays open, until no rule redirects to it. */
const DRAIN_MS = 5_000;

/** Creates an empty set of listeners. */
export function createListeners(options: ListenersOptions): Listeners {
  const { family, placement, clock } = options;
  const assigned = new Map<ServicePortKey, Served>();
  const draining = new Map<ServicePortKey, { readonly served: Served; readonly cancel: () => void }>();
  const sockets = createSockets(options), { ports, incomplete } = sockets;

  const comeBack = (key: ServicePortKey) => {
    const back = draining.get(key);
    back?.cancel();
    draining.delete(key);
    return back?.served;
  };

  return {
    ports,
    keys: () => [...assigned.keys()],
    assign(servicePort) {
      const key = servicePortKey(servicePort.name, servicePort.protocol);
      const served = assigned.get(key) ?? comeBack(key) ?? createServed(key, servicePort);
      assigned.set(key, served);
      served.targets.cluster.servicePort = served.targets.local.servicePort = servicePort;
      sockets.want(served, placesOf(servicePort, family, placement));
    },
    delete(key) {
      const served = assigned.get(key);
      if (served === undefined) return;
      assigned.delete(key);
      incomplete.delete(served);
      ports.delete(key);
      sockets.close(served, ({ port }) => port !== 0);
      if (served.open.size === 0) return;
      const cancel = clock.schedule(DRAIN_MS, () => {
        draining.delete(key);
        sockets.close(served);
      });
      draining.set(key, { served, cancel });
    },
    openMissing: () => inBatches([...incomplete], sockets.openMissing),
    renew: () =>
      inBatches(
        [...assigned.values()].filter(({ targets }) => targets.cluster.servicePort.protocol === "tcp"),
        sockets.renew,
      ),
    problems: () =>
      [...incomplete].map(({ targets, problem = "" }) => (
        { code: "not-relayed", servicePort: targets.cluster.servicePort.name, message: problem }
      )),
    closeAll() {
      for (const served of assigned.values()) sockets.close(served);
      for (const { served, cancel } of draining.values()) {
        cancel();
        sockets.close(served);
      }
      draining.clear();
    },
  };
}

/** Opens and closes the sockets of service ports, and shows which ports these have. */
function createSockets({ counters, listen }: ListenersOptions) {
  const ports = new Map<ServicePortKey, RelayPorts>();
  const incomplete = new Set<Served>();

  const publish = ({ targets, open }: Served) => {
    const listening = [...open.values()].map(({ place, listener }) => [place.list, listener.port]);
    if (open.size > 0) ports.set(targets.cluster.key, Object.fromEntries(listening));
    else ports.delete(targets.cluster.key);
  };
  const close = (served: Served, isUnwanted: (place: Place) => boolean = () => true) => {
    for (const [name, { place, listener }] of served.open) {
      if (!isUnwanted(place)) continue;
      listener.close();
      served.open.delete(name);
      counters.listeners--;
    }
  };
  const open = async (served: Served, place: Place, port: number) => {
    try {
      const listener = await listen({ ...place, port }, served.targets[place.list]);
      served.open.set(placeName(place), { place, listener });
      counters.listeners++;
    } catch (error) {
      served.missing = [...served.missing, place];
      served.problem = whyClosed(place, error);
      counters.listenersFailed++;
      incomplete.add(served);
    }
  };

  return {
    /** The open ports of each service port. */
    ports,
    /** The service ports without some of their sockets. */
    incomplete,
    close,
    /** Closes sockets at other places than these, and notes which ones are missing. */
    want(served: Served, wanted: readonly Place[]): void {
      const names = new Set(wanted.map(placeName));
      close(served, (place) => place.port !== 0 && !names.has(placeName(place)));
      served.missing = wanted.filter((place) => !served.open.has(placeName(place)));
      served.problem = undefined;
      if (served.missing.length > 0) incomplete.add(served);
      else incomplete.delete(served);
      publish(served);
    },
    async openMissing(served: Served): Promise<void> {
      const { missing } = served;
      served.missing = [];
      served.problem = undefined;
      incomplete.delete(served);
      for (const place of missing) await open(served, place, place.port);
      publish(served);
    },
    /** Closes the sockets and opens them again on the same ports. */
    async renew(served: Served): Promise<void> {
      for (const { place, listener } of [...served.open.values()]) {
        close(served, (one) => one === place);
        await open(served, place, listener.port);
      }
      publish(served);
    },
  };
}

async function inBatches(all: readonly Served[], run: (served: Served) => Promise<void>): Promise<void> {
  for (let i = 0; i < all.length; i += BATCH) await Promise.all(all.slice(i, i + BATCH).map(run));
}

function createServed(key: ServicePortKey, servicePort: ServicePort): Served {
  const target = (list: EndpointList): Target => ({ key, list, servicePort });
  return {
    targets: { cluster: target("cluster"), local: target("local") },
    open: new Map(),
    missing: [],
    problem: undefined,
  };
}

/**
 * Opens the first free port of a range, starting at one that depends on the name: after a restart, a listener gets the same
 * port again, to which old rules still send its traffic. Rejects with the error of `open`, or if no port is free.
 */
export type OpenInRange = <Result>(name: string, open: (port: number) => Promise<Result>) => Promise<Result>;

/** The time for which a full range is not searched again. */
const FULL_MS = 5000;

/** Creates the choice of a range for one protocol. */
export function createPortChoice({ first, last }: PortRange, clock: Clock): OpenInRange {
  const size = last - first + 1;
  let fullUntilMs = -Infinity;
  return async (name, open) => {
    const start = numberOf(name);
    for (let i = 0; i < size && clock.monotonic() >= fullUntilMs; i++) {
      try {
        return await open(first + (start + i) % size);
      } catch (error) {
        if (!isPortTaken(error)) throw error;
      }
    }
    if (clock.monotonic() >= fullUntilMs) fullUntilMs = clock.monotonic() + FULL_MS;
    throw new Error(`no port of portRange ${first}-${last} is free (widen it)`);
  };
}

/** A number that depends on every character of a text. */
function numberOf(text: string): number {
  let number = 0;
  for (let i = 0; i < text.length; i++) number = Math.imul(number, 31) + text.charCodeAt(i) >>> 0;
  return number;
}

/** A place where a service port listens; port 0 stands for a free one. */
interface Place {
  readonly list: EndpointList;
  readonly address: string;
  readonly port: number;
}

/** The places of a service port: one for each list that a frontend uses, or its node port while it has endpoints. */
export function placesOf(servicePort: ServicePort, family: Family, placement: RelayPlacement): Place[] {
  const { protocol, clusterEndpoints, lingeringEndpoints } = servicePort;
  // The kernel serves SCTP.
  if (protocol === "sctp") return [];
  if (placement.by === "localhost-node-ports") {
    // UDP flows, to endpoints that linger too, end with their listener.
    const nodePort = nodePortOf(servicePort);
    if (nodePort === undefined || clusterEndpoints.length + lingeringEndpoints.length === 0) return [];
    return placement.addresses
      .filter((address) => familyOf(address) === family && isFrontendAt(nodePort, address))
      .map((address) => ({ list: "cluster", address, port: nodePort.port }));
  }
  const frontends = frontendsOf(servicePort);
  const uses = (list: EndpointList) => frontends.some((one) => one.verdict === list || one.ownVerdict === list);
  const address = protocol === "udp" ? placement.udpAddress : UNSPECIFIED_ADDRESS[family];
  return (["cluster", "local"] as const).filter(uses).map((list) => ({ list, address, port: 0 }));
}

/** A name of a place that is unique within its service port. */
function placeName({ list, address, port }: Place): string {
  return `${list} ${joinHostPort(address, port)}`;
}

/** Whether a system call failed because another socket has the port. */
function isPortTaken(error: unknown): boolean {
  return /EADDRINUSE|address (already )?in use/i.test(errorText(error));
}

/** The reason why a place cannot be opened, and the fix. */
export function whyClosed({ address, port }: Place, error: unknown): string {
  const where = `cannot listen on ${joinHostPort(address, port)}`;
  if (isOutOfFiles(error)) return `${where}: too many open files (raise LimitNOFILE)`;
  if (!isPortTaken(error)) return `${where}: ${errorText(error)}`;
  return port === 0
    ? `${where}: no free port (widen net.ipv4.ip_local_port_range)`
    : `${where}: another program uses the port`;
}
