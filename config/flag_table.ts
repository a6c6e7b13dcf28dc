import { LOCAL_MODES, LOGGING_FORMATS, PROXY_MODES } from "./choices.ts";
import { boolean, type Field, fieldAt, integer, text } from "./fields.ts";
import { type Flag, type FlagGroup, option } from "./flags.ts";
import { FIELDS, type SettingPath } from "./kube_proxy_configuration.ts";

type FlagField = Flag["field"];
type Setting = SettingPath | ((mode: string) => SettingPath);

/** A flag for what the configuration file can say, too. */
function setting(name: string, path: Setting, description: string, options: Partial<Flag> = {}): Flag {
  const setting = typeof path === "string" ? () => path : path;
  const { field } = fieldAt(FIELDS, setting(""));
  return { name, field: flagField(field), description, setting, besideConfig: false, effective: true, ...options };
}

/** A flag of kube-proxy's logging library or its like, which has no meaning here. */
function withoutEffect(name: string, field: FlagField): Flag {
  return {
    name,
    field,
    description: "Accepted for kube-proxy's sake; has no effect.",
    besideConfig: true,
    effective: false,
  };
}

function flagField(field: Field): FlagField {
  if (field.kind === "section" || field.kind === "sections") throw new Error("a flag sets one value, not a section");
  return field;
}

const INEFFECTIVE = { effective: false } as const;
const BESIDE_CONFIG = { besideConfig: true } as const;

/** kube-proxy has one flag for a setting that nftables mode keeps in a section of its own. */
const unlessNftables = (iptables: SettingPath, nftables: SettingPath) => (mode: string) =>
  mode === "nftables" ? nftables : iptables;

/** Every flag in groups, in the order in which lists show them. Names and meanings are kube-proxy's (cmd/kube-proxy/app). */
export const FLAG_GROUPS: readonly FlagGroup[] = [
  {
    title: "Configuration",
    flags: [
      option(
        "config",
        text(),
        "The KubeProxyConfiguration file, YAML or JSON; most other flags are ignored beside it.",
      ),
      option("strict-config", boolean(), "Take unknown and repeated fields of the configuration file for errors."),
      option("write-config-to", text(), "Write the resulting configuration to this file and exit."),
      option("init-only", boolean(), "Do what needs full root privileges, then exit."),
      option("cleanup", boolean(), "Remove all rules and exit."),
    ],
  },
  {
    title: "Where services come from",
    flags: [
      option(
        "source",
        text("kube"),
        "Where services come from: kube; file:PATH, a file or folder of manifests; state:PATH, a state file of KPNG's; " +
          "grpc://HOST:PORT or unix://PATH, a server (sluice serve, or a KPNG program).",
      ),
      option("local", boolean(), "Of a server, watch only what this node may use, decided there."),
      option(
        "api-client-tls-ca",
        text(),
        "The PEM file of the authority that a server's certificate must be signed by.",
      ),
      option("api-client-tls-crt", text(), "The PEM file of the certificate shown to a server."),
      option("api-client-tls-key", text(), "The PEM file of its key."),
      setting(
        "kubeconfig",
        "clientConnection.kubeconfig",
        "The kubeconfig; without it, the pod's service account is used.",
      ),
      option("master", text(), "The API server's address, over the one in the kubeconfig."),
      setting("hostname-override", "hostnameOverride", "This node's name, instead of its host name.", BESIDE_CONFIG),
    ],
  },
  {
    title: "The proxy and its addresses",
    flags: [
      setting("proxy-mode", "mode", "The proxy mode; iptables by default.", {
        values: PROXY_MODES,
      }),
      setting("bind-address", "bindAddress", "An idea of this node's primary IP address; nothing is bound to it."),
      setting("healthz-bind-address", "healthzBindAddress", "IP:port of the health server; 0.0.0.0:10256 by default."),
      setting(
        "metrics-bind-address",
        "metricsBindAddress",
        "IP:port of the metrics; 127.0.0.1:10249 by default, empty for none.",
      ),
      setting("bind-address-hard-fail", "bindAddressHardFail", "Exit when one of these ports cannot be bound."),
      option("healthz-port", integer(10256), "Deprecated: use --healthz-bind-address. 0 turns the health server off."),
      option("metrics-port", integer(10249), "Deprecated: use --metrics-bind-address. 0 turns the metrics off."),
      setting(
        "nodeport-addresses",
        "nodePortAddresses",
        "The prefixes of the addresses that serve node ports, or primary.",
      ),
      setting(
        "feature-gates",
        "featureGates",
        "Feature gates of kube-proxy; those without effect here are named in a warning.",
      ),
      setting("oom-score-adj", "oomScoreAdj", "The process's oom-score-adj, -1000 to 1000."),
      option(
        "control-socket",
        text("/run/sluice/control.sock"),
        "The unix socket on which a running proxy is asked; empty for none.",
      ),
    ],
  },
  {
    title: "How this node's pods are told from others",
    flags: [
      setting(
        "detect-local-mode",
        "detectLocalMode",
        "How this node's pods are told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
        { values: LOCAL_MODES },
      ),
      setting(
        "cluster-cidr",
        "clusterCIDR",
        "The pods' prefix, or one of each family with a comma between, for ClusterCIDR.",
      ),
      setting("pod-bridge-interface", "detectLocal.bridgeInterface", "The bridge of the pods, for BridgeInterface."),
      setting(
        "pod-interface-name-prefix",
        "detectLocal.interfaceNamePrefix",
        "How the names of the pods' interfaces begin, for InterfaceNamePrefix.",
      ),
    ],
  },
  {
    title: "Rules in the kernel",
    flags: [
      setting(
        "masquerade-all",
        unlessNftables("iptables.masqueradeAll", "nftables.masqueradeAll"),
        "Masquerade all traffic to cluster IPs.",
      ),
      setting(
        "iptables-masquerade-bit",
        "iptables.masqueradeBit",
        "The bit of the packet mark that asks for masquerading, 0 to 31.",
      ),
      setting(
        "iptables-localhost-nodeports",
        "iptables.localhostNodePorts",
        "Whether 127.0.0.1 serves node ports (iptables, IPv4).",
      ),
      setting(
        "iptables-sync-period",
        unlessNftables("iptables.syncPeriod", "nftables.syncPeriod"),
        "How often the kernel's rules are checked; over 0.",
      ),
      setting(
        "iptables-min-sync-period",
        unlessNftables("iptables.minSyncPeriod", "nftables.minSyncPeriod"),
        "The shortest time between two syncs; 0, the default, for one that follows from how long they take.",
      ),
    ],
  },
  {
    title: "IPVS mode",
    flags: [
      setting(
        "ipvs-sync-period",
        "ipvs.syncPeriod",
        "How often the kernel's virtual servers are checked; over 0.",
      ),
      setting(
        "ipvs-min-sync-period",
        "ipvs.minSyncPeriod",
        "The shortest time between two syncs in ipvs mode; 0, the default, for one that follows from how long they take.",
      ),
      setting("ipvs-scheduler", "ipvs.scheduler", "The IPVS scheduler; rr by default."),
      setting("ipvs-exclude-cidrs", "ipvs.excludeCIDRs", "The prefixes of virtual servers that are somebody else's."),
      setting("ipvs-strict-arp", "ipvs.strictARP", "Set arp_ignore to 1 and arp_announce to 2."),
      setting("ipvs-tcp-timeout", "ipvs.tcpTimeout", "The timeout of idle TCP connections; 0 leaves it as it is."),
      setting(
        "ipvs-tcpfin-timeout",
        "ipvs.tcpFinTimeout",
        "The timeout of TCP connections after a FIN; 0 leaves it as it is.",
      ),
      setting("ipvs-udp-timeout", "ipvs.udpTimeout", "The timeout of UDP packets; 0 leaves it as it is."),
    ],
  },
  {
    title: "Connection tracking",
    flags: [
      setting(
        "conntrack-max-per-core",
        "conntrack.maxPerCore",
        "Connections to track for each core; 0 leaves the limit as it is.",
      ),
      setting("conntrack-min", "conntrack.min", "Connections to track at the least."),
      setting(
        "conntrack-tcp-timeout-established",
        "conntrack.tcpEstablishedTimeout",
        "The timeout of idle TCP connections; 0 leaves it as it is.",
      ),
      setting(
        "conntrack-tcp-timeout-close-wait",
        "conntrack.tcpCloseWaitTimeout",
        "The timeout of TCP connections in CLOSE_WAIT.",
      ),
      setting("conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", "Take out-of-window TCP packets for valid."),
      setting(
        "conntrack-udp-timeout",
        "conntrack.udpTimeout",
        "The timeout of unreplied UDP flows; 0 leaves it as it is.",
      ),
      setting(
        "conntrack-udp-timeout-stream",
        "conntrack.udpStreamTimeout",
        "The timeout of assured UDP flows; 0 leaves it as it is.",
      ),
    ],
  },
  {
    title: "Logging",
    flags: [
      setting(
        "v",
        "logging.verbosity",
        "How much is logged: 0 to 3 is everyday, 4 adds details, 6 adds everything.",
        { ...BESIDE_CONFIG, letter: "v" },
      ),
      setting(
        "logging-format",
        "logging.format",
        "text or json; by default text on a terminal and json elsewhere.",
        { ...BESIDE_CONFIG, values: LOGGING_FORMATS },
      ),
    ],
  },
  {
    title: "Accepted for kube-proxy's sake, without effect",
    flags: [
      setting(
        "kube-api-burst",
        "clientConnection.burst",
        "Accepted for kube-proxy's sake; has no effect.",
        INEFFECTIVE,
      ),
      setting(
        "kube-api-content-type",
        "clientConnection.contentType",
        "Accepted for kube-proxy's sake; has no effect.",
        INEFFECTIVE,
      ),
      setting("kube-api-qps", "clientConnection.qps", "Accepted for kube-proxy's sake; has no effect.", INEFFECTIVE),
      setting(
        "config-sync-period",
        "configSyncPeriod",
        "Accepted for kube-proxy's sake; has no effect.",
        INEFFECTIVE,
      ),
      setting("profiling", "enableProfiling", "Accepted for kube-proxy's sake; has no effect.", INEFFECTIVE),
      setting(
        "show-hidden-metrics-for-version",
        "showHiddenMetricsForVersion",
        "Accepted for kube-proxy's sake; has no effect.",
        INEFFECTIVE,
      ),
      setting("log-flush-frequency", "logging.flushFrequency", "Accepted for kube-proxy's sake; has no effect.", {
        ...BESIDE_CONFIG,
        ...INEFFECTIVE,
      }),
      ...[
        "boot-id-file",
        "log-backtrace-at",
        "log-dir",
        "log-file",
        "log-json-info-buffer-size",
        "log-text-info-buffer-size",
        "machine-id-file",
        "stderrthreshold",
        "vmodule",
      ]
        .map((name) => withoutEffect(name, text())),
      withoutEffect("log-file-max-size", integer()),
      ...[
        "add-dir-header",
        "alsologtostderr",
        "log-json-split-stream",
        "log-text-split-stream",
        "logtostderr",
        "one-output",
        "skip-headers",
        "skip-log-headers",
      ]
        .map((name) => withoutEffect(name, boolean())),
    ],
  },
];

/** Every flag of `run`, which every command takes. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap(({ flags }) => flags);

/** The flags that say where the cluster is seen from, which the help of every command lists. */
export const SOURCE_FLAGS: readonly string[] = [
  "source",
  "local",
  "api-client-tls-ca",
  "api-client-tls-crt",
  "api-client-tls-key",
  "config",
  "kubeconfig",
  "master",
  "hostname-override",
];
