/** Kubernetes Events of this node, about its Node object or another: what `kubectl describe` shows an administrator. */
import { type Clock, createBackoff, errorText, type Logger, retry, sleep } from "../platform/mod.ts";

/** A request that creates or patches an object of the API. */
export interface EventRequest {
  readonly verb: "create" | "patch";
  readonly resource: string;
  readonly path: string;
  readonly object: unknown;
}

/** Options of `createEventRecorder`. */
export interface EventRecorderOptions {
  readonly nodeName: string;
  /** Sends a request; rejects where it is refused. */
  readonly send: (request: EventRequest, signal: AbortSignal) => Promise<unknown>;
  /** Whether the error is permanent: the proxy may not write Events. */
  readonly isRefusal: (error: unknown) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it; what was not sent is dropped. */
  readonly signal: AbortSignal;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** Writes Events about this node, if the API server accepts them. */
export interface EventRecorder {
  /**
   * Something happened. Returns at once. What is told again of the same `reason` and `about` becomes one Event with a
   * count and the latest message, written at most every five minutes.
   */
  record(type: "Normal" | "Warning", reason: string, about: string, message: string, object?: EventObject): void;
}

/** The object that an Event is about, if it is not this node's Node. */
export interface EventObject {
  readonly kind: "Service";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** What was tried with it, in one word. */
  readonly action: string;
}

/** One Event of the API, with the part that is not written yet. */
interface Series {
  readonly name: string;
  /** What it is about; undefined for this node's Node. */
  readonly object: EventObject | undefined;
  readonly firstAtMs: number;
  lastAtMs: number;
  count: number;
  message: string;
  /** Whether it is to be written, or waits for its time. */
  state: "written" | "queued" | "waiting";
  created: boolean;
}

/** Events of the cluster's own objects, which Nodes are, go into this namespace (as client-go's recorder does it). */
const CLUSTER_NAMESPACE = "default";
const COMPONENT = "sluice";
const LONGEST_MESSAGE = 1000;
/** client-go's spam filter: so many at once, and one more every five minutes. */
const BURST = 25;
const REFILL_MS = 300_000;
const BETWEEN_WRITES_MS = 300_000;
/** client-go's. */
const TRIES = 12;
const BETWEEN_TRIES_MS = 10_000;
const MOST_SERIES = 64;

/** A recorder that has written nothing. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { nodeName, clock, logger, signal, random = Math.random } = options;
  const series = new Map<string, Series>();
  const queue: (() => Promise<void>)[] = [];
  let running = false;
  let refused = false;
  let tokens = BURST;
  let refilledAtMs = clock.monotonic();

  const takeToken = (): boolean => {
    const refills = Math.floor((clock.monotonic() - refilledAtMs) / REFILL_MS);
    tokens = Math.min(BURST, tokens + refills);
    refilledAtMs += refills * REFILL_MS;
    if (tokens === 0) return false;
    tokens--;
    return true;
  };

  const run = async () => {
    if (running) return;
    running = true;
    for (let task = queue.shift(); task && !refused && !signal.aborted; task = queue.shift()) {
      await task().catch((error) => {
        if (signal.aborted) return;
        const reason = errorText(error);
        if (!options.isRefusal(error)) {
          return logger.debug("an event could not be written, and is left out", { reason });
        }
        refused = true;
        series.clear();
        logger.info("no events are written about this node: they are refused", { reason });
      });
    }
    running = false;
  };

  const send = (request: EventRequest): Promise<unknown> => {
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
  };

  const write = (one: Series, event: (one: Series) => unknown) => {
    one.state = "queued";
    queue.push(async () => {
      one.state = "waiting";
      // What comes from now on is written when its time has come.
      const written = one.count;
      const { lastAtMs: last, count, message } = one;
      const lastTimestamp = new Date(last).toISOString().replace(/\.\d+Z$/, "Z");
      sleep(clock, BETWEEN_WRITES_MS, signal).then(() => {
        one.state = "written";
        if (one.count > written && takeToken()) write(one, event);
      }, () => {});
      const path = `/api/v1/namespaces/${one.object?.namespace ?? CLUSTER_NAMESPACE}/events`;
      await send(
        one.created
          ? {
            verb: "patch",
            resource: "events",
            path: `${path}/${one.name}`,
            object: { count, lastTimestamp, message },
          }
          : { verb: "create", resource: "events", path, object: event(one) },
      );
      one.created = true;
    });
    run();
  };

  const begin = (key: string, object: EventObject | undefined): Series => {
    // As client-go names them, the object and a time; made unique where two come at once.
    const nowMs = clock.now();
    const stamp = nowMs.toString(16) + Math.floor(random() * 2 ** 24).toString(16).padStart(6, "0");
    const one: Series = {
      name: `${object?.name ?? nodeName}.${stamp}`,
      object,
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

function eventObject(nodeName: string, type: string, reason: string, one: Series): unknown {
  const time = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
  // `kubectl describe node` looks for the node's name in place of its UID, as the kubelet and kube-proxy write it.
  const { action, ...reference } = one.object ?? { kind: "Node", name: nodeName, uid: nodeName, action: undefined };
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: one.name, namespace: one.object?.namespace ?? CLUSTER_NAMESPACE },
    involvedObject: { apiVersion: "v1", ...reference },
    action,
    type,
    reason,
    message: one.message,
    source: { component: COMPONENT, host: nodeName },
    reportingComponent: COMPONENT,
    reportingInstance: nodeName,
    firstTimestamp: time(one.firstAtMs),
    lastTimestamp: time(one.lastAtMs),
    count: one.count,
  };
}
