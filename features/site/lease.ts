/** The objects of a site at the API server, which the installer creates: the Lease that elects its leader, and the list of its members. */
import { ApiError, isRawObject, rawObject } from "../../core/objects/mod.ts";
import { type Clock, withDeadline } from "../../platform/mod.ts";
import type { ClusterAccess } from "../contract.ts";
import { LEASES, siteObjectName } from "./options.ts";

/** A node that leads a site, as its Lease names it. */
export interface Leader {
  readonly node: string;
  /** HOST:PORT of its server; empty if it is not known yet. */
  readonly address: string;
  /** The certificate of its server (PEM) that it has made itself; empty if its certificate is from the site's CA. */
  readonly certificate: string;
  /** The signature of this by the key of the node's certificate (`prove`); empty if there is none. */
  readonly proof: string;
}

/** The role of a node in its site. */
export type Role =
  /** Nothing is known yet: the API server has not answered, and no leader is stored. */
  | { readonly kind: "undecided" }
  /** It leads the site; `isConfirmed` while it holds the Lease, which it cannot without the API server. */
  | { readonly kind: "leader"; readonly isConfirmed: boolean }
  /** Another node leads; `isConfirmed` if the Lease says so, not only this node's memory. */
  | { readonly kind: "follower"; readonly leader: Leader; readonly isConfirmed: boolean }
  /** It is not a member, or the Lease cannot be used although the API server answers: it watches the API server itself. */
  | { readonly kind: "alone" };

/** The fields of a Lease that decide who leads (coordination.k8s.io/v1, as used by client-go's leaderelection). */
export interface LeaseRecord extends Leader {
  /** The resourceVersion: a write against an older one is refused. */
  readonly version: string;
  readonly durationMs: number;
  readonly transitions: number;
  /** Names the time since the leader's process took the Lease: its `acquireTime`. */
  readonly term: string;
  /** The `renewTime` in milliseconds. Within a term, it advances with the leader's monotonic clock. */
  readonly renewedMs: number;
}

/** The fields that a write changes. */
export interface LeaseWrite extends Leader {
  readonly durationMs: number;
  readonly transitions: number;
}

/** The requests for a site's objects. A process takes the Lease before it renews it. Each one fails with an ApiError, in time. */
export interface LeaseClient {
  read(signal: AbortSignal): Promise<LeaseRecord>;
  /** The names of the nodes that may lead and follow, sorted. No node may change them. */
  members(signal: AbortSignal): Promise<readonly string[]>;
  /** Takes over the Lease if it still has this version; otherwise fails with a `conflict`. */
  take(version: string, write: LeaseWrite, signal: AbortSignal): Promise<LeaseRecord>;
  /** Renews the Lease, in as few bytes as possible, if it still has this version; otherwise fails with a `conflict`. */
  renew(version: string, signal: AbortSignal): Promise<LeaseRecord>;
}

/** The annotations with the address, the certificate and the proof of the leader. */
const ADDRESS = "sluice.dev/site-address";
const CERTIFICATE = "sluice.dev/site-certificate";
const PROOF = "sluice.dev/site-proof";

/** The timeout of a request; a request that renews a Lease has at most half of it. */
const REQUEST_MS = 10_000;

/** Creates the client of a site's Lease. */
export function createLeaseClient({ api, namespace, site, leaseMs, longestMs, clock }: Limits & {
  readonly api: ClusterAccess["api"];
  readonly namespace: string;
  readonly site: string;
  readonly clock: Clock;
}): LeaseClient {
  const limits = { leaseMs, longestMs };
  const name = siteObjectName(site);
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
  // Wall time at the start, then monotonic time: setting the clock must not change differences.
  const startMs = clock.now() - clock.monotonic();
  const now = () => new Date(startMs + clock.monotonic()).toISOString().replace("Z", "000Z");
  const inTime = (ms: number, signal: AbortSignal, act: (signal: AbortSignal) => Promise<unknown>) => {
    const problem = `the request for ${namespace}/${name} was not answered within ${ms / 1000} s`;
    return withDeadline(clock, ms, new ApiError("timeout", problem), signal, act);
  };
  const get = (resource: string, path: string, signal: AbortSignal) =>
    inTime(REQUEST_MS, signal, (signal) => api.read(resource, path, signal));
  const patch = async (ms: number, object: unknown, signal: AbortSignal) =>
    recordOf(
      await inTime(ms, signal, (signal) => {
        return api.send({ verb: "patch", resource: LEASES, path, object }, signal);
      }),
      limits,
    );

  return {
    read: async (signal) => recordOf(await get(LEASES, path, signal), limits),
    members: async (signal) => membersOf(await get("configmaps", membersPath(namespace, site), signal)),
    take(version, write, signal) {
      const { metadata, spec } = changes(write, now());
      return patch(REQUEST_MS, { metadata: { resourceVersion: version, ...metadata }, spec }, signal);
    },
    renew: (version, signal) =>
      patch(
        Math.min(REQUEST_MS, leaseMs / 2),
        { metadata: { resourceVersion: version }, spec: { renewTime: now() } },
        signal,
      ),
  };
}

/** Returns the members of a site as the installer has named them; none if it has not. */
export async function readSiteMembers(
  api: Pick<ClusterAccess["api"], "read">,
  namespace: string,
  site: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    return membersOf(await api.read("configmaps", membersPath(namespace, site), signal));
  } catch (error) {
    if (error instanceof ApiError && error.kind === "not-found") return [];
    throw error;
  }
}

function membersPath(namespace: string, site: string): string {
  return `/api/v1/namespaces/${namespace}/configmaps/${siteObjectName(site)}`;
}

function membersOf(configMap: unknown): readonly string[] {
  return readMembers(text(rawObject(rawObject(configMap).data).members));
}

/** Reads names separated by commas or white space; sorted, each once. */
export function readMembers(text: string): readonly string[] {
  return [...new Set(text.split(/[\s,]+/).filter((name) => name !== ""))].sort();
}

function changes({ node, address, certificate, proof, durationMs, transitions }: LeaseWrite, now: string) {
  return {
    metadata: { annotations: { [ADDRESS]: address, [CERTIFICATE]: certificate, [PROOF]: proof } },
    spec: {
      holderIdentity: node,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: transitions,
    },
  };
}

interface Limits {
  readonly leaseMs: number;
  /** A Lease that claims to last longer counts as one of `leaseMs`. */
  readonly longestMs: number;
}

/**
 * Reads a Lease. Anyone with a node's token can write any duration, so a duration above `longestMs` is replaced by `leaseMs`.
 * Throws an ApiError if the object is not a Lease.
 */
function recordOf(raw: unknown, { leaseMs, longestMs }: Limits): LeaseRecord {
  const { metadata, spec } = rawObject(raw);
  if (!isRawObject(metadata) || typeof metadata.resourceVersion !== "string") {
    throw new ApiError("garbled", "the answer to a request for a Lease is not a Lease");
  }
  const annotations = rawObject(metadata.annotations);
  const { holderIdentity, leaseDurationSeconds, leaseTransitions, acquireTime, renewTime } = rawObject(spec);
  const durationMs = count(leaseDurationSeconds) * 1000;
  return {
    version: metadata.resourceVersion,
    node: text(holderIdentity),
    address: text(annotations[ADDRESS]),
    certificate: text(annotations[CERTIFICATE]),
    proof: text(annotations[PROOF]),
    durationMs: durationMs > longestMs ? leaseMs : durationMs,
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
