import { type FamilyStatusDetails, type NodeView, type ProxyStatus, viewOf } from "../../answers/status/mod.ts";
import type { SyncSummary } from "../../observe/mod.ts";
import { HERE } from "./answer_basis.ts";

/** A sync that has succeeded. */
export function fakeSync(fields: Partial<SyncSummary> = {}): SyncSummary {
  return { revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1, counts: {}, problems: 0, ...fields };
}

/** The status of a family that is ready and has not synced. */
export function fakeFamilyStatus(fields: Partial<FamilyStatusDetails> = {}): FamilyStatusDetails {
  return {
    family: "IPv4",
    worker: { state: "ready" },
    syncs: [],
    latency: undefined,
    lastChangeMs: undefined,
    driftRepaired: 0,
    healthy: true,
    revision: 1,
    servicePorts: 1,
    changesPending: 0,
    noLocalEndpoints: { internal: 0, external: 0 },
    features: {},
    ...fields,
  };
}

/** The status of a healthy proxy without families and problems. */
export function fakeStatus(fields: Partial<ProxyStatus> = {}): ProxyStatus {
  return {
    version: "0.2.0",
    node: HERE,
    nodeAddresses: [],
    zone: "",
    kernel: "6.1.0",
    mode: "nftables",
    source: "kube",
    link: undefined,
    atMs: 10_000,
    startedAtMs: 0,
    healthy: true,
    nodeEligible: true,
    nodeKnown: true,
    stamp: "a",
    services: 1,
    changesToPlan: 0,
    residentBytes: 1,
    features: {},
    families: [],
    problems: [],
    ...fields,
  };
}

/** The view of such a proxy. */
export function fakeView(fields: Partial<ProxyStatus> = {}): NodeView {
  return viewOf(fakeStatus(fields));
}
