import type { Family, ProxyMode } from "../../core/model/mod.ts";
import type { CurrentProblem } from "../../core/problems/mod.ts";
import type { FamilyRecord } from "../../observe/mod.ts";
import type { NoLocalEndpoints } from "../../core/planning/mod.ts";

/** How a running proxy is doing: what a page or a terminal shows of it. Plain data. */
export interface ProxyStatus {
  readonly version: string;
  readonly node: string;
  readonly mode: ProxyMode;
  /** Where the services come from, as on the command line. */
  readonly source: string;
  /** Wall time at which this was told, and at which the proxy started, in milliseconds since 1970. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly healthy: boolean;
  /** Whether the node is to get traffic from outside. */
  readonly nodeEligible: boolean;
  /** Differs from an earlier one where what is told of services and endpoints may do so. */
  readonly stamp: string;
  /** Services that are served, and changes of services and slices that wait to be planned. */
  readonly services: number;
  readonly changesToPlan: number;
  readonly residentBytes: number;
  readonly families: readonly FamilyStatusDetails[];
  /** The problems that last: errors first, then the newest first. */
  readonly problems: readonly CurrentProblem[];
}

/** How one family is doing. */
export interface FamilyStatusDetails extends FamilyRecord {
  readonly family: Family;
  readonly healthy: boolean;
  /** The revision that was last sent to the worker. */
  readonly revision: number;
  readonly servicePorts: number;
  /** Service ports that wait for the worker. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
}
