/** Kubernetes Events from this node, about its Node object or a Service, as `kubectl describe` shows them. */
import type { ApiWrite } from "../core/objects/mod.ts";
import { type Clock, type ClockAndLogger, createBackoff, errorText, retry, sleep, timestamp } from "../platform/mod.ts";

interface EventRecorderOptions extends ClockAndLogger {
  readonly nodeName: string;
  /** Sends a request; rejects if the API server refuses it. */
  readonly send: (request: ApiWrite, signal: AbortSignal) => Promise<unknown>;
  /** Reads the UID of a Service, by which `kubectl describe service` finds its Events; undefined if it does not exist. */
  readonly uidOf: (service: EventObject, signal: AbortSignal) => Promise<string | undefined>;
  /** Whether the error is permanent because the proxy is not permitted to write Events. */
  readonly isRefusal: (error: unknown) => boolean;
  /** Whether the error says that the object of the request does not exist. */
  readonly isGone: (error: unknown) => boolean;
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
  readonly type: "Normal" | "Warning";
  readonly reason: string;
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

/** The Events sent about the Services of a namespace, or about the node itself. */
interface EventsOfNamespace {
  readonly series: Map<string, Series>;
  readonly takeToken: () => boolean;
}

/** Events of cluster-scoped objects such as Nodes go into this namespace, as with client-go's recorder. */
const CLUSTER_NAMESPACE = "default";
const COMPONENT = "sluice";
const LONGEST_MESSAGE = 1000;
/** client-go's spam filter: a burst of this many Events, then one every five minutes. Here for each namespace, not each object. */
const BURST = 25;
const REFILL_MS = 300_000;
const BETWEEN_WRITES_MS = 300_000;
/** client-go's limit of attempts. */
const TRIES = 12;
const BETWEEN_TRIES_MS = 10_000;
/** The most series of a namespace, and the most namespaces whose Events are remembered. */
const MOST_SERIES = 64, MOST_NAMESPACES = 256;

/** Creates an event recorder. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { nodeName, clock, logger, signal } = options;
  const namespaces = new Map<string, EventsOfNamespace>();
  const queue: Series[] = [];
  let running = false;
  let refused = false;

  /** Events of the node itself have no namespace, so that no tenant's take their place. */
  const eventsOf = (namespace = ""): EventsOfNamespace => {
    const found = namespaces.get(namespace) ?? { series: new Map(), takeToken: createSpamFilter(clock) };
    return setNewest(namespaces, namespace, found, MOST_NAMESPACES);
  };

  const run = async () => {
    if (running) return;
    running = true;
    for (let one = queue.shift(); one && !refused && !signal.aborted; one = queue.shift()) {
      const { object } = one;
      await write(one).catch((error) => {
        if (signal.aborted) return;
        const reason = errorText(error);
        // A refusal of a Service's Event may be due to its namespace, for example while that is deleted.
        if (object !== undefined || !options.isRefusal(error)) {
          return logger.debug("event not written, dropping it", { reason });
        }
        refused = true;
        namespaces.clear();
        logger.info("events refused, writing no more about this node", { reason });
      });
    }
    running = false;
  };

  const enqueue = (one: Series) => {
    one.state = "queued";
    queue.push(one);
    run();
  };

  const write = async (one: Series) => {
    one.state = "waiting";
    // Later records are written after the minimum interval.
    const { object, count: written } = one;
    if (object !== undefined && !one.created) one.uid = await uidOf(object, options);
    sleep(clock, BETWEEN_WRITES_MS, signal).then(() => {
      one.state = "written";
      if (one.count > written && eventsOf(object?.namespace).takeToken()) enqueue(one);
    }, () => {});
    await sendSeries(one, options);
  };

  return {
    record(type, reason, about, message, object) {
      if (refused || signal.aborted) return;
      const key = `${type} ${reason} ${about}`, nowMs = clock.now();
      const { series, takeToken } = eventsOf(object?.namespace);
      const one: Series = series.get(key) ?? setNewest(series, key, {
        ...{
          type,
          reason,
          object,
          name: nameOf(object, options),
          firstAtMs: nowMs,
          lastAtMs: nowMs,
          count: 0,
          message,
        },
        // `kubectl describe node` looks for the node's name in place of its UID; the kubelet and kube-proxy write it there.
        uid: nodeName,
        state: "written",
        created: false,
      }, MOST_SERIES);
      one.count++;
      one.lastAtMs = nowMs;
      one.message = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE - 1)}…` : message;
      if (one.state === "written" && takeToken()) enqueue(one);
    },
  };
}

/** Sets an entry as the newest one; the oldest one makes room for it if there are `most` others. */
function setNewest<T>(map: Map<string, T>, key: string, value: T, most: number): T {
  map.delete(key);
  if (map.size >= most) map.delete(map.keys().next().value!);
  map.set(key, value);
  return value;
}

/** The UID of an object; its name, as in kube-proxy, if that cannot be read. */
function uidOf(object: EventObject, options: EventRecorderOptions): Promise<string> {
  const instead = `${object.namespace}/${object.name}`;
  return options.uidOf(object, options.signal).then((uid) => uid ?? instead, () => instead);
}

async function sendSeries(one: Series, options: EventRecorderOptions): Promise<void> {
  await send(writeRequest(options.nodeName, one), options).catch((error) => {
    // The API server deletes Events, after an hour by default.
    if (!one.created || !options.isGone(error)) throw error;
    one.name = nameOf(one.object, options);
    one.created = false;
    return send(writeRequest(options.nodeName, one), options);
  });
  one.created = true;
}

/** A new name after the object and the time, as in client-go; random digits keep names unique. */
function nameOf(
  object: EventObject | undefined,
  { nodeName, clock, random = Math.random }: EventRecorderOptions,
): string {
  const digits = Math.floor(random() * 2 ** 24).toString(16).padStart(6, "0");
  return `${object?.name ?? nodeName}.${clock.now().toString(16)}${digits}`;
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

async function send(request: ApiWrite, options: EventRecorderOptions): Promise<void> {
  const { clock, signal } = options;
  const once = () =>
    options.send(request, signal).then(() => undefined, (error) => {
      if (!options.isRefusal(error)) throw error;
      return { error };
    });
  const backoff = createBackoff({ firstMs: BETWEEN_TRIES_MS, longestMs: BETWEEN_TRIES_MS });
  const refusal = await retry(once, { backoff, clock, signal, tries: TRIES });
  if (refusal) throw refusal.error;
}

/** The request that creates an Event, or updates it if it exists. */
function writeRequest(nodeName: string, { name, count, message, created, ...one }: Series): ApiWrite {
  const namespace = one.object?.namespace ?? CLUSTER_NAMESPACE, path = `/api/v1/namespaces/${namespace}/events`;
  const lastTimestamp = timestamp(one.lastAtMs);
  if (created) {
    return { verb: "patch", resource: "events", path: `${path}/${name}`, object: { count, lastTimestamp, message } };
  }
  const { action, ...reference } = one.object ?? { kind: "Node", name: nodeName, action: undefined };
  const object = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace },
    involvedObject: { apiVersion: "v1", ...reference, uid: one.uid },
    action,
    type: one.type,
    reason: one.reason,
    message,
    source: { component: COMPONENT, host: nodeName },
    reportingComponent: COMPONENT,
    reportingInstance: nodeName,
    firstTimestamp: timestamp(one.firstAtMs),
    lastTimestamp,
    count,
  };
  return { verb: "create", resource: "events", path, object };
}
