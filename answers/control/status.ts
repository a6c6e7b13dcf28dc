import type { Family, ProxyMode } from "../../core/model/mod.ts";
import type { CurrentProblem } from "../../core/problems/mod.ts";
import type { FamilyRecord } from "../../observe/mod.ts";
import type { NoLocalEndpoints } from "../../core/planning/mod.ts";

/** The status of a running proxy, for the page and the terminal. Plain data. */
export interface ProxyStatus {
  readonly version: string;
  readonly node: string;
  readonly mode: ProxyMode;
  /** The source of the services, as on the command line. */
  readonly source: string;
  /** The wall time of this status and of the proxy's start, in milliseconds since 1970. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly healthy: boolean;
  /** Whether load balancers should send traffic to this node. */
  readonly nodeEligible: boolean;
  /** Changes whenever answers about services and endpoints may have changed. */
  readonly stamp: string;
  /** The number of services, and of changes to services and slices that wait to be planned. */
  readonly services: number;
  readonly changesToPlan: number;
  readonly residentBytes: number;
  readonly families: readonly FamilyStatusDetails[];
  /** The current problems: errors before warnings, the newest first. */
  readonly problems: readonly CurrentProblem[];
}

/** The status of one family. */
export interface FamilyStatusDetails extends FamilyRecord {
  readonly family: Family;
  readonly healthy: boolean;
  /** The revision last sent to the worker. */
  readonly revision: number;
  readonly servicePorts: number;
  /** Service ports that wait for the worker. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
}
