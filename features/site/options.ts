import { readWireAddress, type WireAddress } from "../../kpng/address/mod.ts";
import { duration, formatDuration, type OptionsOf, section, text } from "../../platform/schema/mod.ts";
import type { ReportSetting } from "../contract.ts";

/** The fields of a site. */
export const SITE = section({
  /** The name of the site; none if empty. */
  name: text(),
  leaseNamespace: text("sluice-sites"),
  leaseDuration: duration(10_000),
  renewPeriod: duration(4_000),
  /** HOST:PORT on which a leader serves the other nodes. */
  listenAddress: text(":12094"),
  /** This node's host for the other nodes; its Node's first address if empty. */
  advertiseAddress: text(),
  /** PEM files; without a key, the certificate (by default the kubelet's) is one for clients, with its key. */
  tlsCAFile: text(),
  tlsCertFile: text(),
  tlsPrivateKeyFile: text(),
});

/** The options of a site. */
export type SiteOptions = OptionsOf<{ readonly site: typeof SITE }>["site"];

/** The name of a Lease ends with the site's (RFC 1123 label), which client-go and kubectl limit to 63 characters together. */
const NAME = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/;

/** The resource of Leases as RBAC names it. */
export const LEASES = "leases.coordination.k8s.io";

/** The name of a site's Lease, and of the ConfigMap with its members. */
export function siteObjectName(site: string): string {
  return `sluice-site-${site}`;
}

/** The longest duration of a Lease. */
export const LONGEST_LEASE_MS = 600_000;

/** How many times a Lease must be renewed in its duration, so that one lost renewal does not end it. */
const RENEWALS = 2;

/** Checks the settings of a site; without a name, they have no effect and are not checked. */
export function checkSite(site: SiteOptions, report: ReportSetting): void {
  if (site.name === "") return;
  if (!NAME.test(site.name)) {
    report("site.name", site.name, "must be 1 to 40 lower-case letters, digits and '-', starting and ending with one");
  }
  if (readSiteAddress(site.listenAddress) === undefined) {
    report("site.listenAddress", site.listenAddress, "must be HOST:PORT, or :PORT for all addresses");
  }
  const { leaseDurationMs, renewPeriodMs } = site;
  if (leaseDurationMs < 1000 || leaseDurationMs > LONGEST_LEASE_MS || leaseDurationMs % 1000 !== 0) {
    report("site.leaseDuration", formatDuration(leaseDurationMs), "must be whole seconds, from 1s to 10m");
  } else if (renewPeriodMs <= 0 || renewPeriodMs * RENEWALS > leaseDurationMs) {
    const most = formatDuration(leaseDurationMs / RENEWALS);
    report("site.renewPeriod", formatDuration(renewPeriodMs), `must be at most ${most}, half of leaseDuration`);
  }
  if (site.tlsPrivateKeyFile !== "" && (site.tlsCAFile === "" || site.tlsCertFile === "")) {
    report("site.tlsPrivateKeyFile", site.tlsPrivateKeyFile, "it needs tlsCAFile and tlsCertFile");
  }
}

/** Reads the address on which a site's leader serves; undefined for anything else than HOST:PORT or :PORT. */
export function readSiteAddress(text: string): WireAddress & { readonly kind: "tcp" } | undefined {
  const address = readWireAddress(text);
  return address?.kind === "tcp" && address.port > 0 ? address : undefined;
}
