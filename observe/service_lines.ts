import { plural, sameData } from "../platform/mod.ts";
import { type ServicePort, type ServicePortKey, servicePortKey, type ServicePortName } from "../core/model/mod.ts";
import type { PlanChanges } from "../core/planning/mod.ts";

/** One line about changed services: one service, some of its ports, or many services at once. */
export interface ServiceLine {
  /** The same for two lines about the same service ports. */
  readonly key: string;
  /** `shop/cart`, `shop/cart:http`; `services` for many. */
  readonly subject: string;
  readonly text: string;
  readonly tone: "good" | "warning" | "bad" | "idle";
  readonly endpoints?: { readonly before: number | undefined; readonly after: number | undefined };
  readonly names: readonly ServicePortName[];
  /** Whether this line undoes an earlier one of the same key. */
  undoes(earlier: ServiceLine): boolean;
  /** This line, if it began where an earlier one of the same key did. */
  since(earlier: ServiceLine | undefined): ServiceLine;
  /** The changed service ports by key, before and after; empty for many services. */
  readonly ports: ReadonlyMap<ServicePortKey, PortChange>;
}

/** A service port before and after a change; undefined where it does not exist. */
interface PortChange {
  readonly before: ServicePort | undefined;
  readonly after: ServicePort | undefined;
}

/** The number of services that a plan has lines for; one more line counts the others. */
const MOST_LINES = 24;

/** The lines of a plan. `first` is the number of all service ports if it is the first plan. Costs little if it is large. */
export function serviceLines(changes: PlanChanges, first: number | undefined): readonly ServiceLine[] {
  if (first !== undefined) {
    return [lineOfMany("all services", `${plural(first, "service port")} read from the cluster`)];
  }
  const services = new Map<string, Map<ServicePortKey, PortChange>>();
  let left = 0;
  for (const [key, change] of changedPorts(changes)) {
    const { name } = (change.after ?? change.before)!;
    const service = serviceOf(name);
    const ports = services.get(service);
    if (ports !== undefined) ports.set(key, change);
    else if (services.size < MOST_LINES) services.set(service, new Map([[key, change]]));
    else left++;
  }
  return [
    ...[...services].flatMap(([service, ports]) => linesOf(service, ports)),
    ...(left === 0 ? [] : [lineOfMany("other services", `${plural(left, "more service port")} changed`)]),
  ];
}

function* changedPorts({ set, deleted, replaced }: PlanChanges): Iterable<readonly [ServicePortKey, PortChange]> {
  for (const after of set) {
    const key = servicePortKey(after.name, after.protocol);
    yield [key, { before: replaced.get(key), after }];
  }
  for (const key of deleted) {
    const before = replaced.get(key);
    if (before !== undefined) yield [key, { before, after: undefined }];
  }
}

/** One line for a service whose ports all changed in the same way, otherwise one for each port. */
function linesOf(service: string, ports: ReadonlyMap<ServicePortKey, PortChange>): readonly ServiceLine[] {
  const lines = [...ports].map(([key, change]) => lineOf(change, new Map([[key, change]])));
  const [line] = lines;
  if (line === undefined || lines.some(({ text }) => text !== line.text)) return lines;
  return [{ ...lineOf(ports.values().next().value!, ports), subject: service }];
}

function lineOf(change: PortChange, ports: ReadonlyMap<ServicePortKey, PortChange>): ServiceLine {
  const { before, after } = change;
  const { name } = (after ?? before)!;
  const counts = { before: before && usedEndpoints(before).size, after: after && usedEndpoints(after).size };
  const names = [...ports.values()].map((one) => (one.after ?? one.before)!.name);
  const line: ServiceLine = {
    key: [...ports.keys()].sort().join(" "),
    subject: name,
    text: textOf(change, counts),
    tone: after !== undefined && counts.after === 0 ? "warning" : "idle",
    endpoints: counts,
    names,
    ports,
    undoes: (earlier) => [...ports].every(([key, { after }]) => sameData(earlier.ports.get(key)?.before, after)),
    since(earlier) {
      if (earlier === undefined) return line;
      const merged = new Map(
        [...ports].map(([key, { after }]) => [key, { before: earlier.ports.get(key)?.before, after }]),
      );
      return { ...line, ports: merged };
    },
  };
  return line;
}

function lineOfMany(subject: string, text: string): ServiceLine {
  const line: ServiceLine = {
    key: subject,
    subject,
    text,
    tone: "idle",
    names: [],
    ports: new Map(),
    undoes: () => false,
    since: () => line,
  };
  return line;
}

function textOf({ before, after }: PortChange, counts: { readonly before?: number; readonly after?: number }): string {
  if (after === undefined) return "removed";
  if (before === undefined) return `added, ${plural(counts.after!, "endpoint")}`;
  if (counts.before !== counts.after) return `${counts.before} → ${plural(counts.after!, "endpoint")}`;
  const known = usedEndpoints(before);
  const replaced = [...usedEndpoints(after)].filter((target) => !known.has(target)).length;
  return replaced === 0 ? "settings changed" : `${replaced} of ${plural(counts.after!, "endpoint")} replaced`;
}

function usedEndpoints({ clusterEndpoints, localEndpoints }: ServicePort): ReadonlySet<string> {
  return new Set([...clusterEndpoints, ...localEndpoints]);
}

/** `namespace/name` of `namespace/name:port`. */
function serviceOf(name: ServicePortName): string {
  const colon = name.indexOf(":");
  return colon < 0 ? name : name.slice(0, colon);
}
