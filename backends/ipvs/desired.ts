import {
  type Family,
  type FamilyDelta,
  type FamilySettings,
  hasExternalFrontends,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { type Circumstances, type Contribution, contributionOf } from "./contribution.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import type { HeldServer } from "./virtual_servers.ts";

/** The desired state that deltas build up, and where the kernel may differ from it. Pure, without effects. */
export interface Desired {
  apply(delta: FamilyDelta): void;
  /** This node's own addresses, sorted. */
  setNodeAddresses(addresses: readonly string[]): void;
  readonly servers: Ledger<HeldServer>;
  /** The addresses of the dummy interface. */
  readonly addresses: Ledger<true>;
  /** The elements of all sets. */
  readonly entries: Ledger<true>;
  /** Load balancer frontends that the node itself must not use, as `address protocol port`, sorted. */
  closedToNode(): readonly string[];
  /** Everything that a service port needs in the kernel; undefined for an unknown service port. */
  contribution(key: ServicePortKey): Contribution | undefined;
  servicePort(key: ServicePortKey): ServicePort | undefined;
  servicePorts(): Iterable<ServicePort>;
  settings(): FamilySettings | undefined;
}

/** The desired state of a family before the first delta. */
export function createDesired(family: Family, scheduler: string): Desired {
  const servers = createLedger<HeldServer>(sameServer);
  const addresses = createLedger<true>(Object.is);
  const entries = createLedger<true>(Object.is);
  const closed = createLedger<true>(Object.is);
  let settings: FamilySettings | undefined;
  let nodeAddresses: readonly string[] = [];
  let ports = new Map<ServicePortKey, ServicePort>();

  const circumstances = (): Circumstances => {
    if (!settings) throw new Error("there are no settings before the first full snapshot");
    return { family, settings, scheduler, nodeAddresses };
  };
  const claim = (owner: ServicePortKey, contribution: Contribution) => {
    for (const [id, server] of contribution.servers) servers.claim(id, owner, server);
    for (const id of contribution.addresses) addresses.claim(id, owner, true);
    for (const id of contribution.entries) entries.claim(id, owner, true);
    for (const id of contribution.closedToNode) closed.claim(id, owner, true);
  };
  const release = (owner: ServicePortKey, contribution: Contribution) => {
    for (const id of contribution.servers.keys()) servers.release(id, owner);
    for (const id of contribution.addresses) addresses.release(id, owner);
    for (const id of contribution.entries) entries.release(id, owner);
    for (const id of contribution.closedToNode) closed.release(id, owner);
  };
  /** Changes the circumstances and replaces the contributions of the service ports that depend on them. */
  const changeCircumstances = (change: () => void, dependsOnThem: (port: ServicePort) => boolean) => {
    const concerned = settings ? [...ports].filter(([, port]) => dependsOnThem(port)) : [];
    if (settings) {
      const before = circumstances();
      for (const [key, port] of concerned) release(key, contributionOf(port, before));
    }
    change();
    if (!settings) return;
    const now = circumstances();
    for (const [key, port] of concerned) if (ports.has(key)) claim(key, contributionOf(port, now));
  };
  const remove = (key: ServicePortKey) => {
    const port = ports.get(key);
    if (!port) return;
    release(key, contributionOf(port, circumstances()));
    ports.delete(key);
  };

  return {
    apply(delta) {
      if (delta.base === undefined || delta.settings) {
        changeCircumstances(() => {
          if (delta.base === undefined) ports = new Map();
          settings = delta.settings ?? settings;
        }, () => true);
      }
      for (const key of delta.deleted) remove(key);
      const now = circumstances();
      for (const port of delta.set) {
        const key = servicePortKey(port.name, port.protocol);
        remove(key);
        ports.set(key, port);
        claim(key, contributionOf(port, now));
      }
    },
    setNodeAddresses(next) {
      if (next.join() === nodeAddresses.join()) return;
      changeCircumstances(() => {
        nodeAddresses = next;
      }, hasExternalFrontends);
    },
    servers,
    addresses,
    entries,
    closedToNode: () => [...closed.ids()].sort(),
    contribution(key) {
      const port = ports.get(key);
      return port && contributionOf(port, circumstances());
    },
    servicePort: (key) => ports.get(key),
    servicePorts: () => ports.values(),
    settings: () => settings,
  };
}

/** Whether two virtual servers are equal, whatever the order of their real servers. */
function sameServer(a: HeldServer | undefined, b: HeldServer | undefined): boolean {
  if (!a || !b) return a === b;
  if (a.definition !== b.definition || a.misweighted || b.misweighted) return false;
  if (a.realServers === b.realServers && a.weights === b.weights) return true;
  if (a.realServers.length !== b.realServers.length) return false;
  const those = new Map(b.realServers.map((real, i) => [real, b.weights?.[i] ?? 1]));
  return a.realServers.every((real, i) => those.get(real) === (a.weights?.[i] ?? 1));
}
