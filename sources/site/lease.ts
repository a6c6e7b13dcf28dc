/** The Lease of a site, and the requests that read and write it. */
import { isRawObject, rawObject } from "../../core/objects/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import { type ApiClient, ApiError, readText, sendObject } from "../kubernetes/mod.ts";

/** A node that leads a site, as its Lease names it. */
export interface Leader {
  readonly node: string;
  /** HOST:PORT of its server; empty if it is not known yet. */
  readonly address: string;
  /** The certificate of its server (PEM) that it has made itself; empty if its certificate is from the site's CA. */
  readonly certificate: string;
}

/** The fields of a Lease that decide who leads (coordination.k8s.io/v1, as used by client-go's leaderelection). */
export interface LeaseRecord extends Leader {
  /** The resourceVersion: a write against an older one is refused. */
  readonly version: string;
  readonly durationMs: number;
  /** How often the leader has changed. */
  readonly transitions: number;
  /** Names the time since the leader's process took the Lease: its `acquireTime`. */
  readonly term: string;
  /** The `renewTime` in milliseconds. Within a term, differences are those of the leader's monotonic clock. */
  readonly renewedMs: number;
}

/** The fields that a write changes. */
export interface LeaseWrite extends Leader {
  readonly durationMs: number;
  readonly transitions: number;
}

/**
 * The requests to one Lease. A process takes the Lease before it renews it. Each one fails with an ApiError, after `REQUEST_MS` at the latest. */
export interface LeaseClient {
  /** Returns undefined if there is no such Lease. */
  read(signal: AbortSignal): Promise<LeaseRecord | undefined>;
  /** Creates the Lease. A `conflict` means that another node was faster. */
  create(write: LeaseWrite, signal: AbortSignal): Promise<LeaseRecord>;
  /** Takes over the Lease if it is still of this version; else fails with a `conflict`. */
  take(version: string, write: LeaseWrite, signal: AbortSignal): Promise<LeaseRecord>;
  /** Renews the Lease, in as few bytes as possible, if it is still of this version; else fails with a `conflict`. */
  renew(version: string, signal: AbortSignal): Promise<LeaseRecord>;
}

/** Options of `createLeaseClient`. */
export interface LeaseClientOptions {
  readonly api: ApiClient;
  readonly namespace: string;
  /** The name of the site. */
  readonly site: string;
  readonly clock: Clock;
}

/** The annotations with the address and the certificate of the leader. */
const ADDRESS = "sluice.dev/site-address";
const CERTIFICATE = "sluice.dev/site-certificate";

const RESOURCE = "leases.coordination.k8s.io";

/** How long one request may take. */
const REQUEST_MS = 10_000;

/** The name of a site's Lease. */
export function leaseName(site: string): string {
  return `sluice-site-${site}`;
}

/** Creates the client of a site's Lease. */
export function createLeaseClient({ api, namespace, site, clock }: LeaseClientOptions): LeaseClient {
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const name = leaseName(site);
  const path = `${collection}/${name}`;
  // Wall time at the start, and monotonic time from there: a clock that is set must not change differences.
  const startMs = clock.now() - clock.monotonic();
  const now = () => new Date(startMs + clock.monotonic()).toISOString().replace("Z", "000Z");
  const inTime = <T>(signal: AbortSignal, act: (signal: AbortSignal) => Promise<T>) =>
    withDeadline(clock, `the Lease ${namespace}/${name}`, signal, act);
  const patch = async (object: unknown, signal: AbortSignal) =>
    recordOf(
      await inTime(signal, (signal) => {
        return sendObject(api, { verb: "patch", resource: RESOURCE, path, object }, signal);
      }),
    );

  return {
    async read(signal) {
      try {
        const request = { resource: RESOURCE, path };
        return recordOf(JSON.parse(await inTime(signal, (signal) => readText(api, request, signal))));
      } catch (error) {
        if (error instanceof ApiError && error.kind === "not-found") return undefined;
        throw error;
      }
    },
    async create(write, signal) {
      const { metadata, spec } = changes(write, now());
      const object = {
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name, namespace, ...metadata },
        spec,
      };
      const create = (signal: AbortSignal) =>
        sendObject(api, { verb: "create", resource: RESOURCE, path: collection, object }, signal);
      return recordOf(await inTime(signal, create));
    },
    take(version, write, signal) {
      const { metadata, spec } = changes(write, now());
      return patch({ metadata: { resourceVersion: version, ...metadata }, spec }, signal);
    },
    renew: (version, signal) => patch({ metadata: { resourceVersion: version }, spec: { renewTime: now() } }, signal),
  };
}

function changes({ node, address, certificate, durationMs, transitions }: LeaseWrite, now: string) {
  return {
    metadata: { annotations: { [ADDRESS]: address, [CERTIFICATE]: certificate } },
    spec: {
      holderIdentity: node,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: transitions,
    },
  };
}

/** Reads a Lease. Throws an ApiError if it is none. */
function recordOf(raw: unknown): LeaseRecord {
  const { metadata, spec } = rawObject(raw);
  if (!isRawObject(metadata) || typeof metadata.resourceVersion !== "string") {
    throw new ApiError("garbled", "the answer to a request for a Lease is not a Lease");
  }
  const annotations = rawObject(metadata.annotations);
  const { holderIdentity, leaseDurationSeconds, leaseTransitions, acquireTime, renewTime } = rawObject(spec);
  return {
    version: metadata.resourceVersion,
    node: text(holderIdentity),
    address: text(annotations[ADDRESS]),
    certificate: text(annotations[CERTIFICATE]),
    durationMs: count(leaseDurationSeconds) * 1000,
    transitions: count(leaseTransitions),
    term: text(acquireTime),
    renewedMs: Date.parse(text(renewTime)),
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

/** Runs a request that is aborted after `REQUEST_MS`, with an ApiError of kind `timeout`. */
async function withDeadline<T>(
  clock: Clock,
  what: string,
  signal: AbortSignal,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const onAbort = () => ending.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const late = new ApiError("timeout", `the request for ${what} was not answered within ${REQUEST_MS / 1000} s`);
  const cancel = clock.schedule(REQUEST_MS, () => ending.abort(late));
  try {
    return await act(ending.signal);
  } catch (error) {
    signal.throwIfAborted();
    throw ending.signal.aborted ? late : error;
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
}
