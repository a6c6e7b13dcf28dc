import { type Clock, type Logger, sameData } from "../../platform/mod.ts";
import type { SiteStatus } from "../../observe/mod.ts";
import type { Role } from "./role.ts";

/** Options of `createStatusReport`. */
export interface StatusReportOptions {
  readonly site: string;
  readonly node: string;
  readonly onSite: (status: SiteStatus) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Reports and logs a node's part in its site when it has changed. */
export type StatusReport = (role: Role, from: SiteStatus["from"], transitions: number) => void;

/** A report without history. */
export function createStatusReport({ site, node, onSite, clock, logger }: StatusReportOptions): StatusReport {
  let last: SiteStatus | undefined;
  let sinceMs = clock.now();
  return (role, from, transitions) => {
    const isFollower = role.kind === "follower";
    const leader = role.kind === "leader" ? node : isFollower ? role.leader.node : undefined;
    const isConfirmed = (role.kind === "leader" || isFollower) && role.isConfirmed;
    const isNew = last?.role !== role.kind || last.leader !== leader;
    if (isNew) sinceMs = clock.now();
    const address = isFollower ? role.leader.address : undefined;
    const status = { name: site, role: role.kind, isConfirmed, leader, address, from, transitions, sinceMs };
    if (sameData(status, last)) return;
    if (isNew || last?.isConfirmed !== isConfirmed) logRole(role, site, logger);
    last = status;
    onSite(status);
  };
}

function logRole(role: Role, site: string, logger: Logger): void {
  if (role.kind === "alone") logger.warn("no Lease for the site, watching the API server", { site });
  if (role.kind === "leader" && role.isConfirmed) logger.info("leading the site", { site });
  if (role.kind === "leader" && !role.isConfirmed) {
    logger.warn("leading the site without its Lease: the API server cannot be reached", { site });
  }
  if (role.kind !== "follower") return;
  const { node, address } = role.leader;
  if (role.isConfirmed) logger.info("following the leader of the site", { site, leader: node, address });
  else logger.warn("following the last leader of the site: its Lease cannot be read", { site, leader: node, address });
}
