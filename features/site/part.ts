/** This node's part in its site: what status, metrics, Events and the log say of it. */
import { durationText, type Logger, sameData } from "../../platform/mod.ts";
import { addReadings, type Registry } from "../../platform/metrics/mod.ts";
import type { ClusterAccess, FeatureSource, FeatureStatus, Node } from "../contract.ts";
import type { Role } from "./lease.ts";

/** The role of this node in its site (docs/sites.md). Plain data. */
export interface SiteStatus {
  readonly name: string;
  /** `alone` watches the API server although there is a site; `undecided` knows no leader yet. */
  readonly role: "leader" | "follower" | "alone" | "undecided";
  /** Whether the Lease confirms it; without the API server, the last leader stays. */
  readonly isConfirmed: boolean;
  /** The node that leads; undefined if none is known. */
  readonly leader: string | undefined;
  /** HOST:PORT of its server; undefined if it is this node, or unknown. */
  readonly address: string | undefined;
  /** The origin of the state; undefined before the first answer. */
  readonly from: "leader" | "api" | undefined;
  /** How often the site's leader has changed, as its Lease counts. */
  readonly transitions: number;
  /** When this node's role, or its leader, last changed; in milliseconds since 1970. */
  readonly sinceMs: number;
}

/** This node's part in its site, which the running proxy shows. */
export function createSitePart(
  name: string,
  { nodeName, clock, logger }: Pick<ClusterAccess, "nodeName" | "clock" | "logger">,
): Pick<FeatureSource, "startRun"> & { enter(role: Role, from: SiteStatus["from"], transitions: number): void } {
  let status: SiteStatus | undefined;
  let recordEvent: Node["recordEvent"] = () => {};
  let wasLeader = false;

  const recordLeader = ({ role, isConfirmed, transitions }: SiteStatus) => {
    const isLeader = role === "leader" && (isConfirmed || wasLeader);
    if (isLeader && !wasLeader) {
      const message = `this node watches the API server for site ${name} (leader number ${transitions + 1})`;
      recordEvent("SiteLeader", name, message);
    }
    wasLeader = isLeader;
  };

  return {
    enter(role, from, transitions) {
      const isFollower = role.kind === "follower";
      const leader = role.kind === "leader" ? nodeName : isFollower ? role.leader.node : undefined;
      const isConfirmed = (role.kind === "leader" || isFollower) && role.isConfirmed;
      const isNew = status?.role !== role.kind || status.leader !== leader;
      const sinceMs = isNew ? clock.now() : status!.sinceMs;
      const address = isFollower ? role.leader.address : undefined;
      const next = { name, role: role.kind, isConfirmed, leader, address, from, transitions, sinceMs };
      if (sameData(next, status)) return;
      if (isNew || status?.isConfirmed !== isConfirmed) logRole(role, name, logger);
      status = next;
      recordLeader(next);
    },
    startRun(node) {
      recordEvent = node.recordEvent;
      return {
        addMetrics: (registry) => addSiteMetrics(registry, () => status),
        status: () => status && statusLine(status, clock.now()),
      };
    },
  };
}

function addSiteMetrics(registry: Registry, read: () => SiteStatus | undefined): void {
  const of = (valueOf: (site: SiteStatus) => number) => () => {
    const site = read();
    return site === undefined ? [] : [[{ site: site.name }, valueOf(site)] as const];
  };
  const leads = of(({ role }) => Number(role === "leader")), isConfirmed = of((site) => Number(site.isConfirmed));
  const changes = of(({ transitions }) => transitions);
  const confirmedHelp = "Whether the Lease of the site names the leader that this node follows or is";
  addReadings(registry, [
    ["gauge", "sluice_site_leader", "Whether this node leads its site", leads, "site"],
    ["gauge", "sluice_site_lease_confirmed", confirmedHelp, isConfirmed, "site"],
    ["gauge", "sluice_site_leader_changes", "How often the leader of the site has changed", changes, "site"],
  ]);
}

/** The role in the site, and why it is not in order. */
function statusLine(data: SiteStatus, nowMs: number): FeatureStatus {
  const { name, role, isConfirmed, leader, address, from, sinceMs } = data;
  const since = `for ${durationText(Math.max(0, Math.round((nowMs - sinceMs) / 1000) * 1000))}`;
  const line = (isGood: boolean, words: string, reason?: string): FeatureStatus => (
    { label: "Site", tone: isGood ? "good" : "warning", words: `${name}: ${words} ${since}`, reason, data }
  );
  const unconfirmed = isConfirmed ? undefined : "its Lease cannot be read or renewed";
  if (role === "leader") return line(isConfirmed, "leader", unconfirmed);
  if (role === "follower") {
    const words = `follower of ${leader} (grpc://${address})`;
    if (from === "leader") return line(isConfirmed, words, unconfirmed);
    return line(
      false,
      words,
      from === "api" ? "it does not answer, so the API server is watched" : "it has not answered yet",
    );
  }
  if (role === "alone") return line(false, "alone", "its Lease cannot be used");
  return line(false, "no leader is known");
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
