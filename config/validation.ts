import {
  canonicalAddress,
  canonicalPrefix,
  type Family,
  familyOf,
  joinHostPort,
  KUBERNETES_VERSION,
  LOOPBACK_ADDRESS,
  suggestion,
  UNSPECIFIED_ADDRESS,
} from "../platform/mod.ts";
import type { ModeDescription, ModeSection } from "../backends/contract/mod.ts";
import { BALANCE_HASHES } from "../core/model/mod.ts";
import { FEATURES } from "../features/mod.ts";
import { type Configuration, LOCAL_MODES, type LocalMode, LOGGING_FORMATS } from "./configuration.ts";
import { checkLimits, formatDuration } from "../platform/schema/mod.ts";
import { checkFeatureGates, isFeatureEnabled } from "./feature_gates.ts";
import { FIELDS, HEALTHZ_PORT, METRICS_PORT, type Settings } from "./kube_proxy_configuration.ts";
import { NODE_PORT_KEYWORDS, readPortRange } from "./family_settings.ts";

/** A problem with a setting: its dotted path and the message that follows it (`is 40: must be 0 to 31`). */
interface Problem {
  readonly path: string;
  readonly message: string;
}

/** The values that validation computes: their form or default depends on several fields. */
export interface Decisions extends Pick<Configuration, "mode" | "modeDescription" | "detectLocalMode" | "clusterCIDR"> {
  readonly bindAddress: string;
  readonly healthzBindAddress: string;
  readonly metricsBindAddress: string;
  readonly nodePortAddresses: readonly string[];
  readonly excludeCIDRs: readonly string[];
}

/**
 * Validates all settings by the rules of kube-proxy's pkg/proxy/apis/config/validation, and makes addresses and prefixes
 * canonical. `modes` are all modes, the default one first, `schedulers` the kernel's IPVS schedulers. `problems` are invalid
 * settings; `warnings` are valid ones that may not have the expected effect.
 */
export function validate(
  settings: Settings,
  modes: readonly ModeDescription[],
  schedulers: () => readonly string[],
): { readonly decisions: Decisions; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const report = (path: string, value: unknown, must: string) => {
    problems.push({ path, message: `is ${typeof value === "number" ? value : JSON.stringify(value)}: ${must}` });
  };

  const mode = checkMode(settings.mode, modes, report);
  const { section } = mode.settings;
  if (section === "ipvs" && !isFeatureEnabled("KubeProxyIPVS", settings.featureGates)) {
    report("mode", settings.mode, "the feature gate KubeProxyIPVS is off; remove the gate or use another mode");
  }
  checkPeriods(section, settings[section], report);
  const { ipvs } = settings, { ipvs: _ipvs, nftables: _nftables, ...always } = FIELDS;
  checkLimits({ ...always, [section]: FIELDS[section] }, settings, report);
  if (section === "ipvs") checkScheduler(ipvs.scheduler, schedulers, report);
  checkBalance(settings.balance, mode, report);
  const refuse = (path: string, message: string) => problems.push({ path, message });
  const warn = (path: string, message: string) => warnings.push({ path, message });
  for (const feature of FEATURES) feature.check?.(settings, mode, { invalid: report, refuse, warn });
  if (settings.configSyncPeriodMs <= 0) {
    report("configSyncPeriod", formatDuration(settings.configSyncPeriodMs), "must be greater than 0");
  }
  warnings.push(...checkPortRange(settings.portRange, mode, report));
  const gates = checkFeatureGates(settings.featureGates);
  problems.push(...gates.refused.map((message) => ({ path: "featureGates", message })));
  warnings.push(...gates.warnings.map((message) => ({ path: "featureGates", message })));
  checkHiddenMetricsVersion(settings.showHiddenMetricsForVersion, report);
  checkLogging(settings.logging, report);

  const bindAddress = canonicalAddress(settings.bindAddress);
  if (bindAddress === undefined) report("bindAddress", settings.bindAddress, "must be an IP address");
  const family = familyOf(bindAddress ?? "");
  const listen = (path: "healthzBindAddress" | "metricsBindAddress", host: string, port: number): string => {
    const parsed: BindAddress = parseBindAddress(settings[path] || host, port);
    if ("joined" in parsed) return parsed.joined;
    report(path, settings[path], `must be ${parsed.must}`);
    return "";
  };
  const detectLocalMode = checkDetectLocal(settings, report);
  const decisions: Decisions = {
    mode: mode.name,
    modeDescription: mode,
    detectLocalMode,
    bindAddress: bindAddress ?? "",
    healthzBindAddress: listen("healthzBindAddress", UNSPECIFIED_ADDRESS[family], HEALTHZ_PORT),
    metricsBindAddress: listen("metricsBindAddress", LOOPBACK_ADDRESS[family], METRICS_PORT),
    clusterCIDR: decideClusterCIDR(settings.clusterCIDR, detectLocalMode, report),
    nodePortAddresses: decideNodePortAddresses(
      settings.nodePortAddresses,
      mode.settings.defaultNodePortAddresses,
      report,
    ),
    excludeCIDRs: decidePrefixes("ipvs.excludeCIDRs", ipvs.excludeCIDRs, section === "ipvs" ? report : () => {}),
  };
  return { decisions, problems, warnings };
}

type Report = (path: string, value: unknown, must: string) => void;

function checkMode(given: string, modes: readonly ModeDescription[], report: Report): ModeDescription {
  const names = modes.map(({ name }) => name), [byDefault] = modes;
  const mode = given === "" ? byDefault : modes.find(({ name }) => name === given);
  const allowed = `must be ${names.join(", ")} or empty (for ${byDefault!.name})`;
  if (given === "kernelspace") {
    report("mode", given, `this mode is for Windows only; ${allowed}`);
  } else if (mode === undefined) {
    report("mode", given, `${allowed}${suggestion(given, names)}`);
  }
  return mode ?? byDefault!;
}

/** A key of a label, with an optional prefix (validation.IsQualifiedName). */
const LABEL_KEY = /^(?:[a-z0-9][a-z0-9.-]{0,252}\/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

function checkBalance(
  settings: Settings["balance"],
  { name, balance: { algorithms } }: ModeDescription,
  report: Report,
): void {
  const { algorithm, affinityHash, nodeLabels, podLabels } = settings;
  if (algorithm !== "" && !algorithms.some((one) => one === algorithm)) {
    report("balance.algorithm", algorithm, `in ${name} mode, it must be ${algorithms.join(", ")} or empty`);
  }
  if (affinityHash !== "" && !BALANCE_HASHES.some((one) => one === affinityHash)) {
    report("balance.affinityHash", affinityHash, `must be ${BALANCE_HASHES.join(", ")} or empty`);
  }
  for (const [name, keys] of Object.entries({ nodeLabels, podLabels })) {
    const wrong = keys.find((key) => !LABEL_KEY.test(key));
    if (wrong !== undefined) report(`balance.${name}`, wrong, "must be the key of a label");
  }
}

function checkScheduler(given: string, schedulers: () => readonly string[], report: Report): void {
  if (given === "") return;
  const known = schedulers();
  if (known.includes(given)) return;
  report("ipvs.scheduler", given, `must be a scheduler of this kernel: ${known.join(", ")}${suggestion(given, known)}`);
}

/** Like kube-proxy, validates only the periods of the selected mode. */
function checkPeriods(
  section: ModeSection,
  periods: { readonly syncPeriodMs: number; readonly minSyncPeriodMs: number },
  report: Report,
): void {
  const syncPeriod = formatDuration(periods.syncPeriodMs), minSyncPeriod = formatDuration(periods.minSyncPeriodMs);
  if (periods.minSyncPeriodMs < 0) report(`${section}.minSyncPeriod`, minSyncPeriod, "must be 0 or more");
  if (periods.syncPeriodMs <= 0) {
    report(`${section}.syncPeriod`, syncPeriod, "must be greater than 0");
  } else if (periods.minSyncPeriodMs > periods.syncPeriodMs) {
    report(`${section}.minSyncPeriod`, minSyncPeriod, `must not be longer than syncPeriod, which is ${syncPeriod}`);
  }
}

/** kube-proxy accepts any text for the port range, which only the relay of userspace mode uses. */
function checkPortRange(given: string, { name, relay }: ModeDescription, report: Report): readonly Problem[] {
  try {
    readPortRange(given);
    return [];
  } catch {
    if (relay !== "services") {
      const message = `is ${JSON.stringify(given)}, which is not a port range; the field has no effect in ${name} mode`;
      return [{ path: "portRange", message }];
    }
    report("portRange", given, "must be a port range such as 40000-49999");
    return [];
  }
}

/** kube-proxy accepts the previous minor version only. The one before it is what a cluster may have that is upgraded. */
function checkHiddenMetricsVersion(given: string, report: Report): void {
  const [, major, minor] = /^v(\d+)\.(\d+)/.exec(KUBERNETES_VERSION) ?? [];
  const previous = [1, 2].map((back) => `${major}.${Number(minor) - back}`);
  if (given !== "" && !previous.includes(given)) {
    report("showHiddenMetricsForVersion", given, `must be ${previous.join(", ")} or empty`);
  }
}

function checkLogging(logging: Settings["logging"], report: Report): void {
  const { format, vmodule } = logging;
  if (format !== "" && !LOGGING_FORMATS.some((known) => known === format)) {
    report("logging.format", format, `must be ${LOGGING_FORMATS.join(" or ")}${suggestion(format, LOGGING_FORMATS)}`);
  }
  if (vmodule.length > 0 && format === "json") {
    report("logging.vmodule", vmodule.map((item) => item.filePattern), "only works with logging.format text");
  }
  vmodule.forEach((item, i) => {
    if (!/^[^=,]+$/.test(item.filePattern)) {
      report(`logging.vmodule[${i}].filePattern`, item.filePattern, "must not be empty or contain = or ,");
    }
  });
}

// Interface names become part of rules, so they must not contain anything that the tools would interpret.
const INTERFACE = /^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}$/;
const INTERFACE_RULE =
  "must be 1 to 15 letters, digits, '_', '.', ':', '@' and '-', starting with a letter, digit or '_'";

function checkDetectLocal(settings: Settings, report: Report): LocalMode {
  const given = settings.detectLocalMode;
  const mode = given === "" ? "ClusterCIDR" : LOCAL_MODES.find((known) => known === given);
  if (mode === undefined) {
    report("detectLocalMode", given, `must be ${LOCAL_MODES.join(", ")}${suggestion(given, LOCAL_MODES)}`);
  }
  const { bridgeInterface, interfaceNamePrefix } = settings.detectLocal;
  if (mode === "BridgeInterface" && bridgeInterface === "") {
    report("detectLocal.bridgeInterface", "", "detectLocalMode BridgeInterface needs the name of a bridge");
  }
  if (mode === "InterfaceNamePrefix" && interfaceNamePrefix === "") {
    report("detectLocal.interfaceNamePrefix", "", "detectLocalMode InterfaceNamePrefix needs a prefix");
  }
  const checkInterface = (field: string, name: string) => {
    if (name !== "" && !INTERFACE.test(name)) report(field, name, INTERFACE_RULE);
  };
  if (mode === "BridgeInterface") checkInterface("detectLocal.bridgeInterface", bridgeInterface);
  if (mode === "InterfaceNamePrefix") checkInterface("detectLocal.interfaceNamePrefix", interfaceNamePrefix);
  return mode ?? "ClusterCIDR";
}

/** The pod CIDRs of the cluster by family. As in kube-proxy, errors in them matter only with detectLocalMode ClusterCIDR. */
function decideClusterCIDR(given: string, localMode: LocalMode, report: Report): Partial<Record<Family, string>> {
  const parts = given === "" ? [] : given.split(",");
  const prefixes = parts.map(canonicalPrefix);
  const byFamily: Partial<Record<Family, string>> = {};
  for (const prefix of prefixes) if (prefix !== undefined) byFamily[familyOf(prefix)] ??= prefix;
  const invalid = parts.find((_, i) => prefixes[i] === undefined);
  if (localMode !== "ClusterCIDR") return byFamily;
  if (invalid !== undefined || Object.keys(byFamily).length !== parts.length) {
    const reason = invalid === undefined || invalid === given ? "" : ` (${JSON.stringify(invalid)} is not a CIDR)`;
    report("clusterCIDR", given, `must be a CIDR, or one of each family (10.100.0.0/16,fd00:100::/48)${reason}`);
  }
  return byFamily;
}

function decideNodePortAddresses(
  given: readonly string[],
  byDefault: readonly string[],
  report: Report,
): readonly string[] {
  if (given.length === 0) return byDefault;
  return decidePrefixes("nodePortAddresses", given, report, NODE_PORT_KEYWORDS);
}

/** Prefixes in canonical form. As in kube-proxy, a keyword may be listed once only, a prefix more often. */
function decidePrefixes(
  path: string,
  given: readonly string[],
  report: Report,
  keywords: readonly string[] = [],
): readonly string[] {
  const expected = ["a CIDR such as 10.0.0.0/8", ...keywords].join(", ");
  return given.flatMap((text, i) => {
    const isKeyword = keywords.includes(text);
    if (isKeyword && given.indexOf(text) < i) report(`${path}[${i}]`, text, "is listed already; remove it");
    const entry = isKeyword ? text : canonicalPrefix(text);
    if (entry === undefined) report(`${path}[${i}]`, text, `must be ${expected}${suggestion(text, keywords)}`);
    return entry ?? [];
  });
}

/** An `address:port` to listen on, or the expectation that it does not meet. */
type BindAddress = { readonly joined: string } | { readonly must: string };

/** Parses an address like kube-proxy: a bare IP gets `defaultPort`; IPv6 needs brackets before a port; names and port 0 are refused. */
export function parseBindAddress(text: string, defaultPort: number): BindAddress {
  const bare = canonicalAddress(text);
  if (bare !== undefined) return { joined: joinHostPort(bare, defaultPort) };
  const [, inBrackets, plain, portText] = /^(?:\[([^\]]*)\]|([^:[\]]*)):([^:]*)$/.exec(text) ?? [];
  if (portText === undefined) return { must: "IP:port, or [IP]:port for IPv6" };
  const address = canonicalAddress(inBrackets ?? plain ?? "");
  if (address === undefined) return { must: "IP:port with a valid IP address" };
  const port = /^\d{1,5}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65535) return { must: "IP:port with a port from 1 to 65535" };
  return { joined: joinHostPort(address, port) };
}
