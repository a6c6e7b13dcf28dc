/** The Leases of an API server, with optimistic concurrency as in kube-apiserver, and the members of sites. */
import { statusResponse } from "./status_response.ts";

/** A Lease. */
export interface FakeLease {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly holderIdentity?: string;
    readonly acquireTime?: string;
    readonly leaseDurationSeconds?: number;
    readonly leaseTransitions?: number;
    readonly renewTime?: string;
  };
}

/** The Leases. */
export interface LeaseApi {
  /** Answers a request; undefined if it is not for a Lease. `nextRevision` is called for every change. */
  answer(
    request: { readonly method: string; readonly path: string; readonly body: string },
    nextRevision: () => number,
  ): Response | undefined;
  /** Creates the Lease of a site, if there is none, and lists its members, as the installer does. */
  install(site: string, members: readonly string[]): void;
  /** Changes a Lease without regard to its version, as whoever holds the token of a node can. */
  overwrite(name: string, patch: unknown): void;
  /** A Lease by name; undefined if there is none. */
  get(name: string): FakeLease | undefined;
  delete(name: string): void;
}

const MEMBERS_PATH = /^\/api\/v1\/namespaces\/[^/]+\/configmaps\/([^/]+)$/;
const PATH = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/;

/** An API without Leases. */
export function createLeaseApi(): LeaseApi {
  const leases = new Map<string, FakeLease>();
  const members = new Map<string, readonly string[]>();
  let overwritten = 0;

  const store = (lease: Omit<FakeLease, "metadata"> & { readonly metadata: object }, revision: number): FakeLease => {
    const stored = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(revision) } } as FakeLease;
    leases.set(stored.metadata.name, stored);
    return stored;
  };
  const notFound = (name: string) => statusResponse(404, "NotFound", `leases.coordination.k8s.io "${name}" not found`);

  return {
    answer({ method, path, body }, nextRevision) {
      const listed = members.get(MEMBERS_PATH.exec(path)?.[1] ?? "");
      if (listed !== undefined) return Response.json({ kind: "ConfigMap", data: { members: listed.join("\n") } });
      const [, , name] = PATH.exec(path) ?? [];
      if (!PATH.test(path)) return undefined;
      const existing = leases.get(name ?? "");
      if (existing === undefined) return notFound(name ?? "");
      if (method === "GET") return Response.json(existing);
      if (method !== "PATCH") return statusResponse(405, "MethodNotAllowed", `${method} is not supported`);
      const patch = JSON.parse(body);
      const version = patch.metadata?.resourceVersion;
      if (version !== undefined && version !== existing.metadata.resourceVersion) {
        return statusResponse(
          409,
          "Conflict",
          "the object has been modified; please apply your changes to the latest version",
        );
      }
      return Response.json(store(merged(existing, patch) as FakeLease, nextRevision()));
    },
    install(site, names) {
      const name = `sluice-site-${site}`;
      members.set(name, names);
      if (!leases.has(name)) store({ metadata: { name, namespace: "sluice-sites" }, spec: {} }, 0);
    },
    overwrite(name, patch) {
      leases.set(name, merged(leases.get(name), { ...patch as object }) as FakeLease);
      store(leases.get(name)!, 1e9 + overwritten++);
    },
    get: (name) => leases.get(name),
    delete(name) {
      leases.delete(name);
    },
  };
}

/** Applies a merge patch (RFC 7386). */
function merged(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> = typeof target === "object" && target !== null ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
