import { canonicalPrefix, type Family, familyOf, prefixContains } from "../../platform/mod.ts";
import { boolean, duration, formatDuration, type OptionsOf, section, texts } from "../../platform/schema/mod.ts";
import type { ReportSetting } from "../contract.ts";

/**
 * The ranges of the canaries' addresses by default; the first free address is used. No other program may
 * use the address, and it needs a route: the kernel looks the route up before the rules translate the address.
 *
 * IPv4: link-local (RFC 3927), outside 169.254.0.0/17 (OVN-Kubernetes and Antrea), which also holds NodeLocal DNSCache
 * (169.254.20.10) and Calico's gateway (169.254.1.1), and outside 169.254.169.0/24 to 169.254.175.0/24 (metadata, DNS, time
 * and pod identity of clouds). IPv6: unique local (RFC 4193), since link-local addresses need an interface.
 */
const DEFAULT_RANGES: Readonly<Record<Family, string>> = { IPv4: "169.254.238.0/28", IPv6: "fd53:6c75:6963:65::/64" };

/** Addresses that other programs are known to use on nodes, which a range may not contain. */
const TAKEN: readonly string[] = ["169.254.169.0/24", "169.254.170.0/24", "169.254.20.10/32", "fd00:ec2::/32"];

/** The shortest interval and timeout, in milliseconds. */
const SHORTEST_INTERVAL_MS = 500, SHORTEST_TIMEOUT_MS = 100;

/** The fields of the canary in the configuration file. */
export const CANARY_FIELDS = {
  canary: section({
    enabled: boolean(),
    /** One for each family; empty for the default ones. */
    addressRanges: texts(),
    interval: duration(2_000),
    timeout: duration(1_000),
  }),
};

/** The options of the canary. */
export type CanaryOptions = OptionsOf<typeof CANARY_FIELDS>["canary"];

/** The range of each family, given or by default; undefined without a canary. Reports what is invalid. */
export function decideCanaryRanges(
  { addressRanges }: Pick<CanaryOptions, "addressRanges">,
  report: ReportSetting = () => {},
): Readonly<Partial<Record<Family, string>>> {
  if (addressRanges.length === 0) return DEFAULT_RANGES;
  const ranges: Partial<Record<Family, string>> = {};
  for (const [i, text] of addressRanges.entries()) {
    const path = `canary.addressRanges[${i}]`, range = canonicalPrefix(text);
    if (range === undefined) {
      report(path, text, "must be a CIDR such as 169.254.238.0/28");
      continue;
    }
    const family = familyOf(range), [network, length] = range.split("/");
    const host = family === "IPv4" ? 32 : 128;
    if (Number(length) > host - 1) report(path, text, `must have more than one address: /${host - 2} or shorter`);
    if (prefixContains("fe80::/10", network!)) {
      report(path, text, "must not be link-local: these addresses need an interface");
    }
    const taken = TAKEN.find((other) => overlaps(range, other));
    if (taken !== undefined) report(path, text, `must not overlap ${taken}, which other programs on nodes use`);
    if (ranges[family] !== undefined) report(path, text, `must be the only range of ${family}`);
    ranges[family] ??= range;
  }
  return ranges;
}

/** Reports ranges, an interval or a timeout that cannot work. */
export function checkCanary(options: CanaryOptions, report: ReportSetting): void {
  const { intervalMs, timeoutMs } = options;
  decideCanaryRanges(options, report);
  if (intervalMs < SHORTEST_INTERVAL_MS) {
    report("canary.interval", formatDuration(intervalMs), "must be 500ms or longer");
  }
  if (timeoutMs < SHORTEST_TIMEOUT_MS) report("canary.timeout", formatDuration(timeoutMs), "must be 100ms or longer");
  if (timeoutMs > intervalMs) {
    report("canary.timeout", formatDuration(timeoutMs), "must not be longer than canary.interval");
  }
}

function overlaps(a: string, b: string): boolean {
  const [networkA] = a.split("/"), [networkB] = b.split("/");
  return prefixContains(a, networkB!) || prefixContains(b, networkA!);
}
