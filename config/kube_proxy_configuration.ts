import {
  boolean,
  defaultsOf,
  duration,
  durationOrNanoseconds,
  durationOrZero,
  integer,
  integerOrZero,
  number,
  type PathOf,
  quantity,
  section,
  sections,
  switches,
  text,
  texts,
  type ValuesOf,
} from "./fields.ts";

/** The apiVersion of the configuration file. */
export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

/** The kind of the configuration file. */
export const KIND = "KubeProxyConfiguration";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/**
 * The fields of KubeProxyConfiguration v1alpha1 with kube-proxy's defaults (k8s.io/kube-proxy/config/v1alpha1,
 * pkg/proxy/apis/config/v1alpha1/defaults.go). validation.ts fills in the defaults that depend on other fields: those of the
 * bind addresses, `mode`, `detectLocalMode` and `nodePortAddresses`. `minSyncPeriod` is the one exception: kube-proxy treats
 * 0s as its default of 1s in iptables and nftables mode; here 0s is the default and means the adaptive pacing of
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
    burst: integer(10),
  }),
  logging: section({
    /** `text` or `json`; if empty, the program chooses. */
    format: text(),
    flushFrequency: durationOrNanoseconds(5 * SECOND),
    verbosity: integer(),
    vmodule: sections({ filePattern: text(), verbosity: integer() }),
    options: section({
      text: section({ splitStream: boolean(), infoBufferSize: quantity() }),
      json: section({ splitStream: boolean(), infoBufferSize: quantity() }),
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
    masqueradeBit: integerOrZero(14),
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
    tcpTimeout: duration(),
    tcpFinTimeout: duration(),
    udpTimeout: duration(),
  }),
  nftables: section({
    masqueradeBit: integerOrZero(14),
    masqueradeAll: boolean(),
    syncPeriod: duration(30 * SECOND),
    minSyncPeriod: duration(),
  }),
  /** Sluice's own: the relay of userspace mode and of node ports at localhost. */
  userspace: section({
    /** 0 lets the limit of open files decide. */
    maxConnections: integer(),
    /** 0 stands for the relay's default. */
    udpIdleTimeout: duration(),
  }),
  /** Sluice's own: counts of connections, packets and bytes. */
  traffic: section({
    metrics: boolean(),
    /** Whether each endpoint has metrics of its own, besides its service port. */
    endpointMetrics: boolean(),
    /** The time between two readings of the kernel's counters. */
    period: duration(10 * SECOND),
  }),
  /** Sluice's own: the algorithm of Services without an annotation of it. */
  balance: section({
    /** Empty for the default of the mode. */
    algorithm: text(),
    /** For maglev: `flow` or `client`; empty for flow. */
    affinityHash: text(),
    /** The labels of Nodes and Pods that weights may refer to: they are watched, with their objects' names alone. */
    nodeLabels: texts(),
    podLabels: texts(),
  }),
  /** Sluice's own: several nodes behind one line, of which one watches the API server (docs/sites.md). */
  site: section({
    /** The name of the site; none if empty. */
    name: text(),
    leaseNamespace: text("kube-system"),
    leaseDuration: duration(30 * SECOND),
    renewPeriod: duration(10 * SECOND),
    /** HOST:PORT on which a leader serves the other nodes. */
    listenAddress: text(":12091"),
    /** The IPv4 broadcast or multicast address at which the nodes find each other, on that port; none if empty. */
    discoveryAddress: text("255.255.255.255"),
    /** This node's host for the other nodes; its Node's first address if empty. */
    advertiseAddress: text(),
    /** PEM files; without a key, the certificate (by default the kubelet's) is one for clients, with its key. */
    tlsCAFile: text(),
    tlsCertFile: text(),
    tlsPrivateKeyFile: text(),
  }),
  /** Sluice's own: endpoints that do not answer, and connections to endpoints that are gone (nftables mode). */
  failover: section({
    endpointFailureDetection: boolean(),
    /** How often connection attempts are read. */
    interval: duration(150),
    /** The number of attempts in a row without an answer that makes an endpoint a suspect, */
    attempts: integer(3),
    /** and the time for which it must not have answered any. */
    silence: duration(150),
    /** The number of times that a suspect is probed, and how long all of them wait for an answer. */
    probes: integer(5),
    probeTimeout: duration(300),
    /** A second port that is probed: on a node that lives, the kubelet accepts the connection, or a pod refuses it. */
    livenessPort: integer(10250),
    /** How often an endpoint that was left out is probed, and how many answers in a row it needs to be used again. */
    recoveryInterval: duration(1 * SECOND),
    recoveryProbes: integer(2),
    /** When an endpoint that was left out and never answers probes is tried again; twice as long each time. */
    trialInterval: duration(1 * MINUTE),
    resetGoneConnections: boolean(),
    /** For how long connections to an endpoint that is gone are reset. */
    goneTimeout: duration(1 * HOUR),
  }),
  /** Sluice's own: whether to write the condition `ServiceProxyReady` of this node's Node (docs/health.md). */
  nodeCondition: boolean(),
  /** Sluice's own: checks every few seconds that packets to services flow (docs/health.md). */
  canary: section({
    enabled: boolean(),
    /** One for each family; empty for the default ones. */
    addressRanges: texts(),
    interval: duration(2 * SECOND),
    timeout: duration(1 * SECOND),
  }),
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
  oomScoreAdj: integerOrZero(-999),
  conntrack: section({
    /** 0 leaves the limit unchanged. */
    maxPerCore: integerOrZero(32 * 1024),
    min: integerOrZero(128 * 1024),
    tcpEstablishedTimeout: durationOrZero(24 * HOUR),
    tcpCloseWaitTimeout: durationOrZero(1 * HOUR),
    tcpBeLiberal: boolean(),
    udpTimeout: duration(),
    udpStreamTimeout: duration(),
  }),
  configSyncPeriod: duration(15 * MINUTE),
  portRange: text(),
  windowsRunAsService: boolean(),
} as const;

/** The settings of a KubeProxyConfiguration with defaults, not yet validated. */
export type Settings = ValuesOf<typeof FIELDS>;

/** The dotted path of a field in the file. */
export type SettingPath = PathOf<typeof FIELDS>;

/** The settings of an empty file. */
export function defaultSettings(): Settings {
  return defaultsOf(FIELDS);
}
