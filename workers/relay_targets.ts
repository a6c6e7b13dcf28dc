import { type FamilyDelta, frontendsOf, type Protocol, type ServicePort, servicePortKey } from "../core/model/mod.ts";
import { isLoopback, joinHostPort, splitHostPort } from "../platform/mod.ts";

/**
 * The delta without endpoints at loopback addresses. The kernel would not let clients elsewhere reach them, and a relay would:
 * programs listen there for this node alone. (An API server accepts no such endpoint.)
 */
export function withoutLoopback(delta: FamilyDelta): FamilyDelta {
  const isOutside = (endpoint: string) => !isLoopback(splitHostPort(endpoint).address);
  const clean = (port: ServicePort): ServicePort =>
    port.clusterEndpoints.every(isOutside) && port.localEndpoints.every(isOutside) ? port : {
      ...port,
      clusterEndpoints: port.clusterEndpoints.filter(isOutside),
      localEndpoints: port.localEndpoints.filter(isOutside),
    };
  return { ...delta, set: delta.set.map(clean) };
}

/** The destinations that the rules send to a relay. A relay that connected to one of them would serve itself, endlessly. */
export interface OwnFrontends {
  /** Notes a delta that is about to be applied. */
  note(delta: FamilyDelta): void;
  has(endpoint: string, protocol: Protocol): boolean;
}

/** Creates an empty set of frontends. */
export function createOwnFrontends(): OwnFrontends {
  const byPort = new Map<string, readonly string[]>();
  const all = new Set<string>();
  let nodeIP = "";
  const forget = (key: string) => {
    for (const frontend of byPort.get(key) ?? []) all.delete(frontend);
    byPort.delete(key);
  };
  return {
    note({ base, settings, set, deleted }) {
      nodeIP = settings?.nodeIP ?? nodeIP;
      if (base === undefined) { for (const key of [...byPort.keys()]) forget(key); }
      for (const key of deleted) forget(key);
      for (const { name, protocol } of set) forget(servicePortKey(name, protocol));
      for (const port of set) {
        const frontends = frontendsOf(port).map((frontend) =>
          `${port.protocol} ${joinHostPort(frontend.address || nodeIP, frontend.port)}`
        );
        byPort.set(servicePortKey(port.name, port.protocol), frontends);
        for (const frontend of frontends) all.add(frontend);
      }
    },
    has: (endpoint, protocol) => all.has(`${protocol} ${endpoint}`),
  };
}
