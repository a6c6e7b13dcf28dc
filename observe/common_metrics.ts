import type { SourceServer } from "../core/objects/mod.ts";
import { PROBLEM_CODES, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import { KUBERNETES_VERSION, VERSION } from "../platform/mod.ts";
import { readWhenShown, type Registry } from "./exposition.ts";
import { metricMaker } from "./metric_kinds.ts";
import type { SiteStatus } from "./site_status.ts";
import type { SourceLink } from "./source_link.ts";

/** The codes of the problems that a running process can have. */
const LASTING_CODES = PROBLEM_CODES.filter((code) => problemKind(code).checkOnly === undefined);

/** Registers `sluice_problem` with a series for every code, which is 0 if there is no such problem. */
export function addProblems(registry: Registry, read: () => ReadonlyMap<ProblemCode, number>): void {
  const help = "Current problems by code (docs/problems.md)";
  readWhenShown(registry, "gauge", { name: "sluice_problem", help, labels: ["code", "severity"] }, () => {
    const counts = read();
    return LASTING_CODES.map((code) =>
      [{ code, severity: problemKind(code).severity }, counts.get(code) ?? 0] as const
    );
  });
}

/**
 * Registers `kubernetes_build_info`, which names the release that this version behaves like, for alerts on mixed
 * versions.
 */
export function addBuildInfo(registry: Registry): void {
  const info = (name: string, help: string, labels: Readonly<Record<string, string>>) =>
    metricMaker(registry, "").gauge(name, help, Object.keys(labels)).set(labels, 1);
  const [major = "", minor = ""] = KUBERNETES_VERSION.replace(/^v/, "").split(".");
  info("kubernetes_build_info", "The Kubernetes release that this proxy behaves like", {
    major,
    minor,
    git_version: KUBERNETES_VERSION,
    git_commit: "",
    git_tree_state: "",
    build_date: "",
    go_version: "",
    compiler: "deno",
    platform: `${Deno.build.os}/${Deno.build.arch === "x86_64" ? "amd64" : "arm64"}`,
  });
  info("sluice_build_info", "The version of Sluice and of the Deno that runs it", {
    version: VERSION,
    deno: Deno.version.deno,
  });
}

/** Registers the state of the link to the API server or relay. */
export function addLink(registry: Registry, read: () => SourceLink): void {
  const gauge = (name: string, help: string, value: (link: SourceLink) => number | undefined) =>
    readWhenShown(registry, "gauge", { name: `sluice_source_${name}`, help, labels: [] }, () => {
      const shown = value(read());
      return shown === undefined ? [] : [[{}, shown] as const];
    });
  gauge("connected", "Whether the API server or relay answers", ({ state }) => Number(state === "connected"));
  gauge(
    "last_received_timestamp_seconds",
    "When the API server or relay last sent anything, in seconds since 1970",
    ({ lastReceivedMs }) => lastReceivedMs === undefined ? undefined : lastReceivedMs / 1000,
  );
  gauge(
    "kept_state_timestamp_seconds",
    "The time of the kept state that is served until the API server or relay has sent its own, in seconds since 1970",
    ({ keptMs }) => keptMs === undefined ? undefined : keptMs / 1000,
  );
}

/** Registers the part of this node in its site; without one, nothing is shown. */
export function addSite(registry: Registry, read: () => SourceLink): void {
  const gauge = (name: string, help: string, value: (site: SiteStatus) => number) =>
    readWhenShown(registry, "gauge", { name: `sluice_site_${name}`, help, labels: ["site"] }, () => {
      const { site } = read();
      return site === undefined ? [] : [[{ site: site.name }, value(site)] as const];
    });
  gauge("leader", "Whether this node leads its site", ({ role }) => Number(role === "leader"));
  gauge(
    "lease_confirmed",
    "Whether the Lease of the site names the leader that this node follows or is",
    ({ isConfirmed }) => Number(isConfirmed),
  );
  gauge("leader_changes", "How often the leader of the site has changed", ({ transitions }) => transitions);
}

/** Registers `sluice_source_server` with a series for every server of a gRPC source. */
export function addServers(registry: Registry, read: () => readonly SourceServer[]): void {
  const help = "Whether the source watches this server and has its whole state";
  readWhenShown(
    registry,
    "gauge",
    { name: "sluice_source_server", help, labels: ["server"] },
    () => read().map(({ address, inUse }) => [{ server: address }, inUse ? 1 : 0] as const),
  );
}
