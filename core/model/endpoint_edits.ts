/** The difference between two versions of a service port that differ in endpoints only, at the size of the difference. */
import { sameData } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import { SERVICE_PORT_KEY, type ServicePort, servicePortKey } from "./service_port.ts";

const LIST_NAMES = ["clusterEndpoints", "localEndpoints", "endpointsOnThisNode", "lingeringEndpoints"] as const;
type ListName = typeof LIST_NAMES[number];

/** A record with a value for each list of endpoints. */
function byList<T>(of: (name: ListName) => T): Record<ListName, T> {
  return Object.fromEntries(LIST_NAMES.map((name) => [name, of(name)])) as Record<ListName, T>;
}

/** The changes of a list, by position. */
const LIST_EDITS = shape.list(shape.record({
  /** The index before the change of the first endpoint that is removed, or else of the one before which others are added. */
  at: shape.COUNT,
  removed: shape.COUNT,
  added: shape.list(shape.HOST_PORT),
}));

type ListEdits = shape.TypeOf<typeof LIST_EDITS>;

/** The changes of a service port's endpoints. */
export const ENDPOINT_EDITS = shape.record({ key: SERVICE_PORT_KEY, ...byList(() => LIST_EDITS) });

/** See `ENDPOINT_EDITS`. */
interface EndpointEdits extends shape.TypeOf<typeof ENDPOINT_EDITS> {}

/** Whether two versions of a service port differ in these lists of endpoints at most. */
export function differsInEndpointsOnly(before: ServicePort, after: ServicePort): boolean {
  const { clusterEndpoints, localEndpoints, endpointsOnThisNode, lingeringEndpoints } = before;
  return sameData(before, { ...after, clusterEndpoints, localEndpoints, endpointsOnThisNode, lingeringEndpoints });
}

/** The edits that turn one version of a service port into another, which differs in endpoints only. */
export function endpointEdits(before: ServicePort, after: ServicePort): EndpointEdits {
  const key = servicePortKey(after.name, after.protocol);
  return { key, ...byList((name) => listEdits(before[name], after[name])) };
}

/** The service port after these edits. Endpoints that stay are the same objects. */
export function withEdits(port: ServicePort, edits: EndpointEdits): ServicePort {
  return { ...port, ...byList((name) => editedList(port[name], edits[name])) };
}

/** The number of endpoints that edits remove or add. */
export function editsSize(edits: EndpointEdits): number {
  return LIST_NAMES.flatMap((name) => edits[name]).reduce((sum, { removed, added }) => sum + removed + added.length, 0);
}

/** The fewest edits, if both lists are sorted; otherwise, correct ones. */
function listEdits(before: readonly string[], after: readonly string[]): ListEdits {
  const edits = [];
  let i = 0, j = 0;
  while (i < before.length || j < after.length) {
    if (before[i] === after[j]) {
      i++;
      j++;
      continue;
    }
    const at = i, from = j;
    while (before[i] !== after[j]) {
      if (j === after.length || i < before.length && before[i]! < after[j]!) i++;
      else j++;
    }
    edits.push({ at, removed: i - at, added: after.slice(from, j) });
  }
  return edits;
}

function editedList(list: readonly string[], edits: ListEdits): readonly string[] {
  if (edits.length === 0) return list;
  const edited: string[] = [];
  let next = 0;
  for (const { at, removed, added } of edits) {
    for (; next < at; next++) edited.push(list[next]!);
    // Not as arguments: 200,000 exceed the stack.
    for (const endpoint of added) edited.push(endpoint);
    next += removed;
  }
  for (; next < list.length; next++) edited.push(list[next]!);
  return edited.slice();
}
