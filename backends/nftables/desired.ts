import {
  type FamilyDelta,
  type FamilySettings,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";

/** The desired state of a family: its service ports and settings after all deltas. */
export interface Desired {
  /** Applies a delta; returns the service ports whose part of the table may have changed or must be deleted. */
  apply(delta: FamilyDelta): ReadonlySet<ServicePortKey>;
  servicePort(key: ServicePortKey): ServicePort | undefined;
  servicePorts(): Iterable<ServicePort>;
  keys(): Iterable<ServicePortKey>;
  /** Undefined before the first full state. */
  settings(): FamilySettings | undefined;
}

/** The state of a family before the first delta. */
export function createDesired(): Desired {
  let settings: FamilySettings | undefined;
  let ports = new Map<ServicePortKey, ServicePort>();
  return {
    apply(delta) {
      const changed = new Set<ServicePortKey>();
      if (delta.base === undefined) {
        for (const key of ports.keys()) changed.add(key);
        ports = new Map();
      }
      if (delta.settings) {
        settings = delta.settings;
        for (const key of ports.keys()) changed.add(key);
      }
      for (const key of delta.deleted) {
        ports.delete(key);
        changed.add(key);
      }
      for (const port of delta.set) {
        const key = servicePortKey(port.name, port.protocol);
        ports.set(key, port);
        changed.add(key);
      }
      return changed;
    },
    servicePort: (key) => ports.get(key),
    servicePorts: () => ports.values(),
    keys: () => ports.keys(),
    settings: () => settings,
  };
}
