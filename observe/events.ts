/** Kubernetes Events from this node, about its Node object or a Service, as `kubectl describe` shows them. */
import type { ApiWrite } from "../core/objects/mod.ts";
import { type Clock, createBackoff, errorText, type Logger, retry, sleep } from "../platform/mod.ts";

/** Options of `createEventRecorder`. */
interface EventRecorderOptions {
  readonly nodeName: string;
  /** Sends a request; rejects if the API server refuses it. */
  readonly send: (request: ApiWrite, signal: AbortSignal) => Promise<unknown>;
  /** Reads the UID of a Service, by which `kubectl describe service` finds its Events; undefined if it does not exist. */
  readonly uidOf: (service: EventObject, signal: AbortSignal) => Promise<string | undefined>;
  /** Whether the error is permanent because the proxy is not permitted to write Events. */
  readonly isRefusal: (error: unknown) => boolean;
  /** Whether the error says that the object of the request does not exist. */
  readonly isGone: (error: unknown) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops the recorder; unsent Events are dropped. */
  readonly signal: AbortSignal;
  /** Returns a number in [0, 1); Math.random by default. */
  readonly random?: () => number;
}

/** Writes Events about this node, if the API server accepts them. */
export interface EventRecorder {
  /**
   * Records an Event and returns at once. Records with the same `type`, `reason` and `about` become one Event with a
   * count and the latest message, written at most once every five minutes.
   */
  record(type: "Normal" | "Warning", reason: string, about: string, message: string, object?: EventObject): void;
}

/** The object that an Event is about, if it is not this node's Node. */
export interface EventObject {
  readonly kind: "Service";
  readonly namespace: string;
  readonly name: string;
  /** The action that was attempted, in one word. */
  readonly action: string;
}

/** One Event of the API, including updates that are not written yet. */
interface Series {
  name: string;
  /** The object that it is about; undefined for this node's Node. */
  readonly object: EventObject | undefined;
  /** The UID of the object; a Service's UID is read before the Event is created. */
  uid: string;
  readonly firstAtMs: number;
  lastAtMs: number;
  count: number;
  message: string;
  /** Whether it may be written at once, is queued for writing, or waits for the minimum interval between writes. */
  state: "written" | "queued" | "waiting";
  created: boolean;
}

/** Events of cluster-scoped objects such as Nodes go into this namespace, as with client-go's recorder. */
const CLUSTER_NAMESPACE = "default";
const COMPONENT = "sluice";
const LONGEST_MESSAGE = 1000;
/** client-go's spam filter: a burst of this many Events, then one every five minutes. */
const BURST = 25;
const REFILL_MS = 300_000;
const BETWEEN_WRITES_MS = 300_000;
/** client-go's limit of attempts. */
const TRIES = 12;
const BETWEEN_TRIES_MS = 10_000;
const MOST_SERIES = 64;

/** Creates an event recorder. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { nodeName, clock, logger, signal, random = Math.random } = options;
  const series = new Map<string, Series>();
  const queue: { readonly object: EventObject | undefined; readonly write: () => Promise<void> }[] = [];
  let running = false;
  let refused = false;
  const takeToken = createSpamFilter(clock);

  const run = async () => {
    if (running) return;
    running = true;
    for (let task = queue.shift(); task && !refused && !signal.aborted; task = queue.shift()) {
      const { object, write } = task;
      await write().catch((error) => {
        if (signal.aborted) return;
        const reason = errorText(error);
        // A refusal of a Service's Event may be due to its namespace, for example while that is deleted.
        if (object !== undefined || !options.isRefusal(error)) {
          return logger.debug("event not written, dropping it", { reason });
        }
        refused = true;
        series.clear();
        logger.info("events refused, writing no more about this node", { reason });
      });
    }
    running = false;
  };

  const write = (one: Series, event: (one: Series) => unknown) => {
    one.state = "queued";
    const task = async () => {
      one.state = "waiting";
      // Later records are written after the minimum interval.
      const written = one.count;
      if (one.object !== undefined && !one.created) one.uid = await readUid(one.object);
      sleep(clock, BETWEEN_WRITES_MS, signal).then(() => {
        one.state = "written";
        if (one.count > written && takeToken()) write(one, event);
      }, () => {});
      await send(writeRequest(one, event), options).catch((error) => {
        // The API server deletes Events, after an hour by default.
        if (!one.created || !options.isGone(error)) throw error;
        one.name = nameOf(one.object);
        one.created = false;
        return send(writeRequest(one, event), options);
      });
      one.created = true;
    };
    queue.push({ object: one.object, write: task });
    run();
  };

  /** The UID of a Service; its name, as in kube-proxy, if it cannot be read. */
  const readUid = (service: EventObject) => {
    const instead = `${service.namespace}/${service.name}`;
    return options.uidOf(service, signal).then((uid) => uid ?? instead, () => instead);
  };

  /** A new name after the object and the time, as in client-go; random digits keep names unique. */
  const nameOf = (object: EventObject | undefined) => {
    const digits = Math.floor(random() * 2 ** 24).toString(16).padStart(6, "0");
    return `${object?.name ?? nodeName}.${clock.now().toString(16)}${digits}`;
  };

  const begin = (key: string, object: EventObject | undefined): Series => {
    const nowMs = clock.now();
    const one: Series = {
      name: nameOf(object),
      object,
      // `kubectl describe node` looks for the node's name in place of its UID; the kubelet and kube-proxy write it there.
      uid: nodeName,
      firstAtMs: nowMs,
      lastAtMs: nowMs,
      count: 0,
      message: "",
      state: "written",
      created: false,
    };
    if (series.size >= MOST_SERIES) series.delete(series.keys().next().value!);
    series.set(key, one);
    return one;
  };

  return {
    record(type, reason, about, message, object) {
      if (refused || signal.aborted) return;
      const key = `${type} ${reason} ${about}`;
      const one = series.get(key) ?? begin(key, object);
      one.count++;
      one.lastAtMs = clock.now();
      one.message = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE - 1)}…` : message;
      if (one.state !== "written" || !takeToken()) return;
      write(one, (event) => eventObject(nodeName, type, reason, event));
    },
  };
}

/** Creates client-go's spam filter; each call returns whether another Event may be written now. */
function createSpamFilter(clock: Clock): () => boolean {
  let tokens = BURST;
  let refilledAtMs = clock.monotonic();
  return () => {
    const refills = Math.floor((clock.monotonic() - refilledAtMs) / REFILL_MS);
    tokens = Math.min(BURST, tokens + refills);
    refilledAtMs += refills * REFILL_MS;
    if (tokens === 0) return false;
    tokens--;
    return true;
  };
}

/** Sends a request, and retries it unless it is refused. */
function send(request: ApiWrite, options: EventRecorderOptions): Promise<unknown> {
  const { clock, signal } = options;
  const once = async () => {
    try {
      return { answer: await options.send(request, signal) };
    } catch (error) {
      if (!options.isRefusal(error)) throw error;
      return { refusal: error };
    }
  };
  const backoff = createBackoff({ firstMs: BETWEEN_TRIES_MS, longestMs: BETWEEN_TRIES_MS });
  return retry(once, { backoff, clock, signal, tries: TRIES }).then((outcome) => {
    if ("refusal" in outcome) throw outcome.refusal;
    return outcome.answer;
  });
}

/** The request that creates an Event, or updates it if it exists. */
function writeRequest(one: Series, event: (one: Series) => unknown): ApiWrite {
  const path = `/api/v1/namespaces/${one.object?.namespace ?? CLUSTER_NAMESPACE}/events`;
  if (!one.created) return { verb: "create", resource: "events", path, object: event(one) };
  const { name, count, message } = one, lastTimestamp = timestamp(one.lastAtMs);
  return { verb: "patch", resource: "events", path: `${path}/${name}`, object: { count, lastTimestamp, message } };
}

function eventObject(nodeName: string, type: string, reason: string, one: Series): unknown {
  const { action, ...reference } = one.object ?? { kind: "Node", name: nodeName, action: undefined };
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: one.name, namespace: one.object?.namespace ?? CLUSTER_NAMESPACE },
    involvedObject: { apiVersion: "v1", ...reference, uid: one.uid },
    action,
    type,
    reason,
    message: one.message,
    source: { component: COMPONENT, host: nodeName },
    reportingComponent: COMPONENT,
    reportingInstance: nodeName,
    firstTimestamp: timestamp(one.firstAtMs),
    lastTimestamp: timestamp(one.lastAtMs),
    count: one.count,
  };
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}
