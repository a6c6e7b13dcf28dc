import {
  type ClusterObject,
  type Decoded,
  KINDS,
  refOf,
  refText,
  type Service,
  type SourceSink,
} from "../../core/objects/mod.ts";
import { createObjectProblems, type ObjectProblems } from "../../core/problems/mod.ts";
import { sameData } from "../../platform/mod.ts";
import type { ClusterScoped } from "../store/mod.ts";
import { type ServiceKey, serviceKey, splitServiceKey } from "../../core/tracking/mod.ts";
import { assembleSlices, type ReceivedEndpoint, type Slices } from "./assemble_slices.ts";
import {
  type NodeMessage,
  nodeOfMessage,
  type ServiceCIDRMessage,
  serviceCIDROfMessage,
  type ServiceMessage,
  serviceOfMessage,
} from "../messages/mod.ts";

/**
 * Assembles Kubernetes objects from the entries of KPNG's sets, identified by path, and reports their changes to a sink, all at
 * once at the end of a round.
 */
interface Assembler {
  setService(path: string, message: ServiceMessage): void;
  /** Sets an endpoint; undefined for one that cannot be used. `problems` are those found in it. */
  setEndpoint(path: string, endpoint: ReceivedEndpoint | undefined, problems?: EntryProblems): void;
  setNode(path: string, message: NodeMessage): void;
  setServiceCIDR(path: string, message: ServiceCIDRMessage): void;
  delete(kind: EntryKind, path: string): void;
  /**
   * Assembles the slices of the service at that path now, so that `sync`, which reports everything in one turn, takes less time.
   * Later changes in the same round still count.
   */
  assemble(path: string): void;
  /** Everything is about to be set again; entries that are not set before `sync` are deleted. */
  reset(): void;
  /** Ends the round: reports the changes, and `synced` after the first round. */
  sync(): void;
}

/** The kinds of entries. */
export type EntryKind = "Service" | "endpoint" | "Node" | "ServiceCIDR";

/** Everything in an entry that cannot be used. */
interface EntryProblems {
  /** The name of the entry, for an operator. */
  readonly subject: string;
  readonly sentences: readonly string[];
}

interface Entry {
  service: Service | undefined;
  readonly endpoints: Map<string, ReceivedEndpoint>;
  slices: Slices;
  /** The slices to report next, if already assembled. */
  next: Slices | undefined;
}

const NO_SLICES: Slices = new Map();

/** An empty assembler. With `inFull`, objects keep their details. */
export function createAssembler(sink: SourceSink, inFull: boolean): Assembler {
  const services = createServices(sink);
  const scoped = createScopedObjects(sink);
  let unconfirmed:
    | { readonly services: Set<string>; readonly endpoints: Set<string>; readonly scoped: Set<string> }
    | undefined;
  let synced = false;
  const problemsOf = createObjectProblems(sink.problems, "received");
  let endProblems = () => {};

  const setScoped = (key: string, decoded: Decoded) => {
    unconfirmed?.scoped.delete(key);
    scoped.set(key, use(problemsOf, key, decoded, () => scoped.get(key)));
  };

  return {
    setService(path, message) {
      unconfirmed?.services.delete(path);
      const service = use(problemsOf, `Service ${path}`, serviceOfMessage(message, inFull), services.serviceOf);
      services.setService(path, service);
    },
    setEndpoint(path, endpoint, problems = { subject: path, sentences: [] }) {
      problemsOf.set(`endpoint ${path}`, problems.subject, problems.sentences);
      unconfirmed?.endpoints.delete(path);
      services.setEndpoint(path, endpoint);
    },
    setNode: (path, message) => setScoped(`Node ${path}`, nodeOfMessage(message, inFull)),
    setServiceCIDR: (path, message) => setScoped(`ServiceCIDR ${path}`, serviceCIDROfMessage(message)),
    delete(kind, path) {
      const key = `${kind} ${path}`;
      problemsOf.delete(key);
      if (kind === "Service") services.setService(path, undefined);
      else if (kind === "endpoint") services.setEndpoint(path, undefined);
      else scoped.delete(key);
    },
    assemble: services.assemble,
    reset() {
      endProblems = problemsOf.startList();
      unconfirmed = {
        services: new Set(services.servicePaths()),
        endpoints: new Set(services.endpointPaths()),
        scoped: new Set(scoped.keys()),
      };
    },
    sync() {
      for (const path of unconfirmed?.services ?? []) services.setService(path, undefined);
      for (const path of unconfirmed?.endpoints ?? []) services.setEndpoint(path, undefined);
      for (const key of unconfirmed?.scoped ?? []) scoped.delete(key);
      unconfirmed = undefined;
      endProblems();
      endProblems = () => {};
      services.settle();
      scoped.settle();
      if (!synced) { for (const kind of KINDS) sink.synced(kind); }
      synced = true;
    },
  };
}

/** The services and endpoints, by path; undefined removes one. `settle` reports what changed in this round. */
function createServices(sink: SourceSink) {
  const entries = new Map<ServiceKey, Entry>();
  const serviceAt = new Map<string, ServiceKey>();
  const endpointAt = new Map<string, ServiceKey>();
  // The services that changed in this round, with the Service before.
  const touched = new Map<ServiceKey, Service | undefined>();

  const touch = (key: ServiceKey): Entry => {
    const entry = entries.get(key) ?? { service: undefined, endpoints: new Map(), slices: NO_SLICES, next: undefined };
    entries.set(key, entry);
    entry.next = undefined;
    if (!touched.has(key)) touched.set(key, entry.service);
    return entry;
  };

  const nextSlices = (key: ServiceKey, { service, endpoints, slices }: Entry): Slices =>
    assembleSlices(splitServiceKey(key), service, endpoints.values(), slices);

  /** Ends the round for one service. */
  const settleOne = (key: ServiceKey) => {
    const entry = entries.get(key)!;
    const before = entry.slices;
    entry.slices = entry.next ?? nextSlices(key, entry);
    entry.next = undefined;
    if (entry.service === undefined && entry.endpoints.size === 0) entries.delete(key);
    return { key, service: entry.service, before, slices: entry.slices };
  };

  const settle = () => {
    const settled = Array.from(touched.keys(), settleOne);
    // Deletions first: a slice can move from one service to another.
    for (const { key, before, slices } of settled) {
      const { namespace } = splitServiceKey(key);
      for (const name of before.keys()) if (!slices.has(name)) sink.delete({ kind: "EndpointSlice", namespace, name });
    }
    for (const { key, service, before, slices } of settled) {
      const reported = touched.get(key);
      if (service !== undefined && !sameData(service, reported)) sink.set(service);
      if (service === undefined && reported !== undefined) sink.delete({ kind: "Service", ...splitServiceKey(key) });
      for (const [name, slice] of slices) if (slice !== before.get(name)) sink.set(slice);
    }
    touched.clear();
  };

  return {
    serviceOf: (key: ServiceKey) => entries.get(key)?.service,
    servicePaths: () => serviceAt.keys(),
    endpointPaths: () => endpointAt.keys(),
    setService(path: string, service: Service | undefined) {
      const key = service === undefined ? undefined : serviceKey(service.namespace, service.name);
      const before = serviceAt.get(path);
      if (before !== undefined && before !== key) {
        serviceAt.delete(path);
        touch(before).service = undefined;
      }
      if (key === undefined) return;
      serviceAt.set(path, key);
      if (entries.get(key)?.service !== service) touch(key).service = service;
    },
    setEndpoint(path: string, endpoint: ReceivedEndpoint | undefined) {
      const key = endpoint?.service;
      const before = endpointAt.get(path);
      if (before !== undefined && before !== key) {
        endpointAt.delete(path);
        touch(before).endpoints.delete(path);
      }
      if (endpoint === undefined || key === undefined) return;
      if (before === key && sameData(entries.get(key)!.endpoints.get(path), endpoint)) return;
      endpointAt.set(path, key);
      touch(key).endpoints.set(path, endpoint);
    },
    assemble(path: string) {
      const key = serviceAt.get(path);
      const entry = key === undefined ? undefined : entries.get(key);
      if (key !== undefined && entry !== undefined && touched.has(key)) entry.next = nextSlices(key, entry);
    },
    settle,
  };
}

/** The cluster-scoped objects, by kind and path; `settle` reports those that changed in this round. */
function createScopedObjects(sink: SourceSink) {
  const objects = new Map<string, ClusterScoped>();
  const reported = new Map<string, ClusterScoped>();
  let isTouched = false;

  return {
    get: (key: string) => objects.get(key),
    keys: () => objects.keys(),
    set(key: string, object: ClusterScoped | undefined) {
      if (object === objects.get(key)) return;
      isTouched = true;
      if (object === undefined) objects.delete(key);
      else objects.set(key, object);
    },
    delete(key: string) {
      isTouched = objects.delete(key) || isTouched;
    },
    settle() {
      if (!isTouched) return;
      const now = new Map(Array.from(objects.values(), (object) => [`${object.kind} ${object.name}`, object]));
      for (const [key, object] of now) if (!sameData(object, reported.get(key))) sink.set(object);
      for (const [key, object] of reported) if (!now.has(key)) sink.delete(refOf(object));
      reported.clear();
      for (const [key, object] of now) reported.set(key, object);
      isTouched = false;
    },
  };
}

/** Reports the problems of a decoded object; returns it, or the known one if that has the same data. */
function use<T extends ClusterObject>(
  problemsOf: ObjectProblems,
  path: string,
  { ref, object, problems }: Decoded,
  known: (key: string) => T | undefined,
): T | undefined {
  problemsOf.set(path, ref === undefined ? path : refText(ref), problems);
  const before = ref === undefined ? undefined : known(serviceKey(ref.namespace, ref.name));
  if (object !== undefined && before !== undefined && sameData(object, before)) return before;
  return object as T | undefined;
}
