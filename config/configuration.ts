import type { Family, ProxyMode } from "../core/model/mod.ts";
import type { TlsPaths, WireAddress } from "../kpng/transport/mod.ts";
import type { Settings } from "./kube_proxy_configuration.ts";

/** How traffic from this node's own pods is recognized (kube-proxy's detectLocalMode). */
export type LocalMode = "ClusterCIDR" | "NodeCIDR" | "BridgeInterface" | "InterfaceNamePrefix";

/**
 * Where services, endpoints and the node come from: the Kubernetes API; manifests in a file or folder; a state file of
 * KPNG's; a server of KPNG's protocol, of which the state of all the cluster is watched, or what this node may use.
 */
export type SourceChoice =
  | { readonly kind: "kube" }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "state"; readonly path: string }
  | {
    readonly kind: "grpc";
    readonly address: WireAddress;
    readonly scope: "global" | "local";
    readonly tls: TlsPaths;
  };

/** How log lines are written. */
export type LoggingFormat = "text" | "json";

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** The settings whose values are decided and made canonical here; the others are as the file has them. */
type Decided = "mode" | "detectLocalMode" | "clusterCIDR" | "healthzBindAddress" | "metricsBindAddress";

/**
 * The one configuration that everything reads: every field of KubeProxyConfiguration v1alpha1 (durations in
 * milliseconds under names that end in `Ms`), validated, defaults filled in, addresses and prefixes canonical, deeply
 * frozen; and what is Sluice's own.
 */
export interface Configuration extends DeepReadonly<Omit<Settings, Decided>> {
  readonly mode: ProxyMode;
  readonly detectLocalMode: LocalMode;
  /** The prefixes of the cluster's pods, for local detection by ClusterCIDR. */
  readonly clusterCIDR: Readonly<Partial<Record<Family, string>>>;
  /** `address:port` of `/healthz` and `/livez`; undefined where that is off. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port` of `/metrics`, `/proxyMode` and `/configz`; undefined where that is off. */
  readonly metricsBindAddress: string | undefined;

  /** How often the kernel is compared with what it should hold: the chosen mode's syncPeriod. */
  readonly syncPeriodMs: number;
  /** The shortest time between two syncs: the chosen mode's minSyncPeriod; 0 for one that follows from how long syncs take. */
  readonly minSyncPeriodMs: number;
  /** Whether all traffic to cluster IPs is masqueraded: the chosen mode's setting (ipvs reads iptables'). */
  readonly masqueradeAll: boolean;
  /** The bit, 0 to 31, of the packet mark that asks for masquerading: the chosen mode's setting (ipvs reads iptables'). */
  readonly masqueradeBit: number;

  /** The name of this node's Node object: hostnameOverride, or the machine's host name, trimmed and in lower case. */
  readonly nodeName: string;
  readonly source: SourceChoice;
  /** The path of a kubeconfig; undefined for the service account of a pod. */
  readonly kubeconfig: string | undefined;
  /** The API server's address, over the one in the kubeconfig. */
  readonly master: string | undefined;
  /** The path of the unix socket on which a running proxy is asked; undefined for none. */
  readonly controlSocket: string | undefined;
  /** klog's `-v` number. */
  readonly verbosity: number;
  /** undefined where nobody chose. */
  readonly loggingFormat: LoggingFormat | undefined;
  /** Whether what is doubtful in the configuration file is an error. */
  readonly strictConfig: boolean;
  /** Do what needs root and end. */
  readonly initOnly: boolean;
  /** Remove every rule of Sluice's and kube-proxy's, and end. */
  readonly cleanup: boolean;
}

/** Freezes a tree of plain objects and arrays, and returns it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
