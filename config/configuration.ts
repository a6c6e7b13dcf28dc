import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import type { Family, ProxyMode } from "../core/model/mod.ts";
import type { TlsPaths, WireAddress } from "../kpng/address/mod.ts";
import { type DeepReadonly, type Field, type Fields, formatDuration, valueName } from "../platform/schema/mod.ts";
import type { GivenForms } from "./file.ts";
import { API_VERSION, FIELDS, KIND, type Settings } from "./kube_proxy_configuration.ts";
import { loadYaml } from "../platform/mod.ts";
import type { RunOptions } from "./run_flags.ts";

/** The detection of traffic from this node's own pods (kube-proxy's detectLocalMode). */
export type LocalMode = "ClusterCIDR" | "NodeCIDR" | "BridgeInterface" | "InterfaceNamePrefix";

/**
 * The source of the cluster's state: the Kubernetes API, manifests in a file or folder, a KPNG state file, or a server of
 * KPNG's protocol, which sends the state of the whole cluster (`global`) or what this node may use (`local`). Of several
 * servers, one is watched at a time.
 */
export type SourceChoice =
  | { readonly kind: "kube" }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "state"; readonly path: string }
  | {
    readonly kind: "grpc";
    /** At least one, all different, in the order in which they are tried. */
    readonly addresses: readonly WireAddress[];
    readonly scope: "global" | "local";
    readonly tls: TlsPaths;
  };

/** The format of log lines. */
export type LoggingFormat = "text" | "json";

/** kube-proxy's modes on Linux; the first is the default. */
export const PROXY_MODES: readonly ProxyMode[] = MODE_DESCRIPTIONS.map(({ name }) => name);

/** The modes of detecting local traffic; the first is the default. */
export const LOCAL_MODES: readonly LocalMode[] = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];

/** The log formats. */
export const LOGGING_FORMATS: readonly LoggingFormat[] = ["text", "json"];

/** The settings whose values validation decides or makes canonical; the others are as given. */
type Decided = "mode" | "detectLocalMode" | "clusterCIDR" | "healthzBindAddress" | "metricsBindAddress";

/**
 * The configuration of a proxy: every field of KubeProxyConfiguration v1alpha1 (durations in milliseconds, with the suffix
 * `Ms`), validated, with defaults, canonical addresses and prefixes, and deeply frozen; plus what only flags set.
 */
export interface Configuration extends DeepReadonly<Omit<Settings, Decided>>, RunOptions {
  readonly mode: ProxyMode;
  readonly modeDescription: ModeDescription;
  readonly detectLocalMode: LocalMode;
  /** The CIDRs of the cluster's pods, for detect-local mode ClusterCIDR. */
  readonly clusterCIDR: Readonly<Partial<Record<Family, string>>>;
  /** `address:port` of `/healthz` and `/livez`; undefined if disabled. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port` of `/metrics`, `/proxyMode` and `/configz`; undefined if disabled. */
  readonly metricsBindAddress: string | undefined;

  /** Values in the form in which they were given, for documents. */
  readonly forms: GivenForms;
  /** The interval of checks of the kernel for drift: the mode's syncPeriod. */
  readonly syncPeriodMs: number;
  /** The minimum time between two syncs: the mode's minSyncPeriod; 0 adapts it to the duration of syncs. */
  readonly minSyncPeriodMs: number;
  /** Whether all traffic to cluster IPs is masqueraded: the mode's setting (ipvs uses the iptables setting). */
  readonly masqueradeAll: boolean;
  /** The bit of the packet mark that requests masquerading, 0 to 31: the mode's setting (ipvs uses the iptables setting). */
  readonly masqueradeBit: number;

  /** The name of this node's Node object: hostnameOverride or the host name, trimmed and in lower case. */
  readonly nodeName: string;
  readonly source: SourceChoice;
  /** The path of a kubeconfig; undefined for the service account of a pod. */
  readonly kubeconfig: string | undefined;
  /** The container runtime's socket, for the addresses of pods while the cached state is served. */
  readonly runtimeSocket: string | undefined;
  /** klog's `-v` number. */
  readonly verbosity: number;
  /** Undefined if unset. */
  readonly loggingFormat: LoggingFormat | undefined;
}

/** Freezes a tree of plain objects and arrays, and returns it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

/**
 * The configuration as a KubeProxyConfiguration v1alpha1, as written by `--write-config-to`: every field that kube-proxy
 * writes, and Sluice's own. Values that the file format cannot express (a disabled address) are empty.
 */
export function documentOf(configuration: Configuration): Readonly<Record<string, unknown>> {
  return { kind: KIND, apiVersion: API_VERSION, ...section(FIELDS, settingsOf(configuration), configuration.forms) };
}

/**
 * The document that `/configz` shows: as kube-proxy's, it has the settings in effect, so the sections of other modes have
 * neither periods nor `masqueradeAll`.
 */
export function documentInEffect(configuration: Configuration): Readonly<Record<string, unknown>> {
  const { modeDescription: { settings } } = configuration;
  const sections = MODE_DESCRIPTIONS.map(({ settings: { section } }) => section).map((name) => {
    const periods = name === settings.section ? {} : { syncPeriodMs: 0, minSyncPeriodMs: 0 };
    const masqueradeAll = name === settings.masqueradeSection && configuration.masqueradeAll;
    return [name, { ...configuration[name], ...periods, ...name !== "ipvs" && { masqueradeAll } }] as const;
  });
  return documentOf({ ...configuration, ...Object.fromEntries(sections) });
}

/** The values of the fields of a KubeProxyConfiguration. */
export function settingsOf(configuration: Configuration): object {
  return {
    ...configuration,
    healthzBindAddress: configuration.healthzBindAddress ?? "",
    metricsBindAddress: configuration.metricsBindAddress ?? "",
  };
}

/** Formats the configuration as a KubeProxyConfiguration in YAML. */
export async function writeDocument(configuration: Configuration): Promise<string> {
  const { formatYaml } = await loadYaml();
  return formatYaml(documentOf(configuration));
}

/** Warnings about flags that a file cannot express: there, an empty or zero value means the default. */
export function unwritable(configuration: Configuration): readonly string[] {
  const { healthzBindAddress, metricsBindAddress } = configuration;
  const warnings: string[] = [];
  if (healthzBindAddress === undefined) warnings.push("healthzBindAddress: a file cannot disable the health server");
  if (metricsBindAddress === undefined) warnings.push("metricsBindAddress: a file cannot disable the metrics server");
  return warnings;
}

function section(fields: Fields, values: object, forms: GivenForms = {}, path = ""): Record<string, unknown> {
  const entries = Object.entries<Field>(fields).map(([name, field]) => {
    const value = (values as Record<string, unknown>)[valueName(name, field)], own = path + name;
    if (field.kind === "section") return [name, section(field.fields, value as object, forms, `${own}.`)];
    return [name, Object.hasOwn(forms, own) ? forms[own] : written(field, value)];
  });
  return Object.fromEntries(entries);
}

/** A value as kube-proxy writes it: nothing if undefined. */
function written(field: Field, value: unknown): unknown {
  switch (field.kind) {
    case "sections":
      return (value as object[]).length === 0
        ? undefined
        : (value as object[]).map((item) => section(field.fields, item));
    case "switches":
      return Object.keys(value as object).length === 0 ? undefined : value;
    case "texts":
      return (value as string[]).length === 0 ? null : value;
    case "boolean":
      return value === false && field.isOmittedIfFalse ? undefined : value;
    case "duration":
      return formatDuration(value as number);
    default:
      return value;
  }
}
