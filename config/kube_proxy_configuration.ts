import {
  boolean,
  booleanIfTrue,
  defaultsOf,
  duration,
  durationOrNanoseconds,
  integer,
  number,
  type PathOf,
  quantity,
  section,
  sections,
  switches,
  text,
  texts,
  type ValuesOf,
  withZero,
} from "../platform/schema/mod.ts";

import { FEATURE_FIELDS } from "../features/mod.ts";

/** The apiVersion of the configuration file. */
export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

/** The kind of the configuration file. */
export const KIND = "KubeProxyConfiguration";

/** kube-proxy's default of `oomScoreAdj`. */
export const DEFAULT_OOM_SCORE = -999;

/** The default port of the health server (pkg/cluster/ports). */
export const HEALTHZ_PORT = 10256;
/** The default port of the metrics server (pkg/cluster/ports). */
export const METRICS_PORT = 10249;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const NOT_NEGATIVE = { from: 0, to: 2 ** 31 - 1 };
const MARK_BIT = { from: 0, to: 31 };

/**
 * The fields of KubeProxyConfiguration v1alpha1 with kube-proxy's defaults (k8s.io/kube-proxy/config/v1alpha1,
 * pkg/proxy/apis/config/v1alpha1/defaults.go). validation.ts fills in the defaults that depend on other fields: the bind
 * addresses, `mode`, `detectLocalMode` and `nodePortAddresses`. `minSyncPeriod` is the one exception: kube-proxy treats 0s as
 * its default of 1s in iptables and nftables mode; here 0s is the default and means the adaptive pacing of
 * `createFamilyChannel`.
 */
export const FIELDS = {
  featureGates: switches(),
  clientConnection: section({
    kubeconfig: text(),
    acceptContentTypes: text(),
    contentType: text("application/vnd.kubernetes.protobuf"),
    /** Requests a second. */
    qps: number(5),
    burst: integer(10, NOT_NEGATIVE),
  }),
  logging: section({
    /** `text` or `json`; if empty, the program chooses. */
    format: text(),
    flushFrequency: durationOrNanoseconds(5 * SECOND),
    verbosity: integer(0, { from: 0 }),
    vmodule: sections({ filePattern: text(), verbosity: integer(0, { from: 0 }) }),
    options: section({
      text: section({ splitStream: booleanIfTrue(), infoBufferSize: quantity() }),
      json: section({ splitStream: booleanIfTrue(), infoBufferSize: quantity() }),
    }),
  }),
  hostnameOverride: text(),
  bindAddress: text("0.0.0.0"),
  healthzBindAddress: text(),
  metricsBindAddress: text(),
  bindAddressHardFail: boolean(),
  enableProfiling: boolean(),
  showHiddenMetricsForVersion: text(),
  mode: text(),
  iptables: section({
    masqueradeBit: withZero(integer(14, MARK_BIT)),
    masqueradeAll: boolean(),
    localhostNodePorts: boolean(true),
    syncPeriod: duration(30 * SECOND),
    minSyncPeriod: duration(),
  }),
  ipvs: section({
    syncPeriod: duration(30 * SECOND),
    minSyncPeriod: duration(),
    scheduler: text(),
    excludeCIDRs: texts(),
    strictARP: boolean(),
    tcpTimeout: duration(0, { from: 0 }),
    tcpFinTimeout: duration(0, { from: 0 }),
    udpTimeout: duration(0, { from: 0 }),
  }),
  nftables: section({
    masqueradeBit: withZero(integer(14, MARK_BIT)),
    masqueradeAll: boolean(),
    syncPeriod: duration(30 * SECOND),
    minSyncPeriod: duration(),
  }),
  /** Sluice's own: the relay of userspace mode and of node ports at localhost. */
  userspace: section({
    /** 0 lets the limit of open files decide. */
    maxConnections: integer(0, { from: 0, to: 1_000_000 }),
    /** 0 means the relay's default. */
    udpIdleTimeout: duration(0, { from: 0 }),
  }),
  /** Sluice's own: the algorithm of Services that do not request one. */
  balance: section({
    /** Empty for the default of the mode. */
    algorithm: text(),
    /** For consistent-hash: `flow` or `client`; empty for flow. */
    affinityHash: text(),
    /** The labels of Nodes and Pods that weights may refer to: they are watched, with the names of their objects. */
    nodeLabels: texts(),
    podLabels: texts(),
  }),
  ...FEATURE_FIELDS,
  winkernel: section({
    networkName: text(),
    sourceVip: text(),
    enableDSR: boolean(),
    rootHnsEndpointName: text(),
    forwardHealthCheckVip: boolean(),
  }),
  detectLocalMode: text(),
  detectLocal: section({ bridgeInterface: text(), interfaceNamePrefix: text() }),
  clusterCIDR: text(),
  nodePortAddresses: texts(),
  oomScoreAdj: withZero(integer(DEFAULT_OOM_SCORE, { from: -1000, to: 1000 })),
  conntrack: section({
    /** 0 leaves the limit unchanged. */
    maxPerCore: withZero(integer(32 * 1024, NOT_NEGATIVE)),
    min: withZero(integer(128 * 1024, NOT_NEGATIVE)),
    tcpEstablishedTimeout: withZero(duration(24 * HOUR, { from: 0 })),
    tcpCloseWaitTimeout: withZero(duration(1 * HOUR, { from: 0 })),
    tcpBeLiberal: boolean(),
    udpTimeout: duration(0, { from: 0 }),
    udpStreamTimeout: duration(0, { from: 0 }),
  }),
  configSyncPeriod: duration(15 * MINUTE),
  portRange: text(),
  windowsRunAsService: booleanIfTrue(),
} as const;

/** The settings of a KubeProxyConfiguration with defaults, not yet validated. */
export type Settings = ValuesOf<typeof FIELDS>;

/** The dotted path of a field in the file. */
export type SettingPath = PathOf<typeof FIELDS>;

/** The settings of an empty file. */
export function defaultSettings(): Settings {
  return defaultsOf(FIELDS);
}
