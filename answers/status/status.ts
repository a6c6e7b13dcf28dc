import type { Family, ProxyMode } from "../../core/model/mod.ts";
import type { NoLocalEndpoints } from "../../core/planning/mod.ts";
import type { CurrentProblem } from "../../core/problems/mod.ts";
import type { FeatureStatus } from "../../features/mod.ts";
import type { SourceLink } from "../../observe/process/mod.ts";
import type { FamilyRecord } from "../../observe/mod.ts";

/** The status of a running proxy. Plain data. */
export interface ProxyStatus {
  readonly version: string;
  readonly node: string;
  /** The node's addresses, canonical, the primary family first; without unknown ones. */
  readonly nodeAddresses: readonly string[];
  /** The node's zone; empty if unknown. */
  readonly zone: string;
  /** The release of its kernel: `6.1.0-18-amd64`. */
  readonly kernel: string;
  readonly mode: ProxyMode;
  /** The source of the services, as on the command line. */
  readonly source: string;
  /** The link to the API server or relay; undefined if the source is a file. */
  readonly link: SourceLink | undefined;
  /** The wall time of this status and of the proxy's start, in milliseconds since 1970. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly healthy: boolean;
  /** Whether load balancers should send traffic to this node. */
  readonly nodeEligible: boolean;
  /** Whether this node's Node object has been read, although it may be deleted since. */
  readonly nodeKnown: boolean;
  /** Changes whenever answers about services and endpoints may have changed. */
  readonly stamp: string;
  /** The number of services, and of changes to services and slices that wait to be planned. */
  readonly services: number;
  readonly changesToPlan: number;
  readonly residentBytes: number;
  readonly families: readonly FamilyStatusDetails[];
  /** The status lines of features about the node, by the name of the feature. */
  readonly features: Readonly<Record<string, FeatureStatus>>;
  /** The current problems: errors before warnings, the newest first. */
  readonly problems: readonly CurrentProblem[];
}

/** The status of one family. */
export interface FamilyStatusDetails extends FamilyRecord {
  readonly family: Family;
  readonly healthy: boolean;
  readonly revision: number;
  readonly servicePorts: number;
  /** Service ports whose last change is not in the kernel. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
  /** The status lines of features about the family, by the name of the feature. */
  readonly features: Readonly<Record<string, FeatureStatus>>;
}
