import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import { FEATURES } from "../features/mod.ts";
import { LOCAL_MODES, LOGGING_FORMATS, PROXY_MODES } from "./configuration.ts";
import { boolean, type Field, fieldAt, integer, quantity, text } from "../platform/schema/mod.ts";
import type { Flag, FlagGroup } from "./command_spec.ts";
import { FIELDS, type SettingPath } from "./kube_proxy_configuration.ts";
import { RUN_FLAGS } from "./run_flags.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "./validation.ts";

type FlagField = Flag["field"];
type Setting = SettingPath | ((mode: string) => SettingPath);

/** A flag that sets a field of the configuration file. */
function setting(name: string, path: Setting, description: string, options: Partial<Flag> = {}): Flag {
  const setting = typeof path === "string" ? () => path : path;
  const { field } = fieldAt(FIELDS, setting(""));
  return { name, field: flagField(field), description, setting, besideConfig: false, effective: true, ...options };
}

/** A flag of kube-proxy without an effect here, of its logging library for example. */
function withoutEffect(name: string, field: FlagField): Flag {
  return { name, field, description: COMPATIBILITY, besideConfig: true, effective: false };
}

/** The same for one that sets a field of the configuration file. */
function settingWithoutEffect(name: string, path: SettingPath): Flag {
  return setting(name, path, COMPATIBILITY, INEFFECTIVE);
}

function flagField(field: Field): FlagField {
  if (field.kind === "section" || field.kind === "sections") throw new Error("a flag sets one value, not a section");
  return field;
}

const INEFFECTIVE = { effective: false } as const;
const COMPATIBILITY = "Accepted for compatibility with kube-proxy; has no effect.";
const BESIDE_CONFIG = { besideConfig: true } as const;

/** A setting that nftables mode has in its own section; kube-proxy has one flag for both. */
const unlessNftables = (iptables: SettingPath, nftables: SettingPath) => (mode: string) => {
  const chosen = MODE_DESCRIPTIONS.find(({ name }) => name === mode);
  return chosen?.settings.masqueradeSection === "nftables" ? nftables : iptables;
};

/** All flags in groups, in the order of the help. Names and meanings are kube-proxy's (cmd/kube-proxy/app). */
export const FLAG_GROUPS: readonly FlagGroup[] = [
  {
    title: "Configuration",
    flags: [RUN_FLAGS.config, RUN_FLAGS.strictConfig, RUN_FLAGS.writeConfigTo, RUN_FLAGS.initOnly, RUN_FLAGS.cleanup],
  },
  {
    title: "Source of services",
    flags: [
      RUN_FLAGS.source,
      RUN_FLAGS.local,
      RUN_FLAGS.tlsCa,
      RUN_FLAGS.tlsCrt,
      RUN_FLAGS.tlsKey,
      RUN_FLAGS.maxMsgSize,
      setting(
        "kubeconfig",
        "clientConnection.kubeconfig",
        "The kubeconfig file; by default, the pod's service account is used.",
      ),
      RUN_FLAGS.serviceProxyName,
      RUN_FLAGS.stateDirectory,
      RUN_FLAGS.stateDelay,
      RUN_FLAGS.runtimeEndpoint,
      RUN_FLAGS.master,
      setting("hostname-override", "hostnameOverride", "The node name to use instead of the host name.", BESIDE_CONFIG),
    ],
  },
  {
    title: "Mode and addresses",
    flags: [
      setting("proxy-mode", "mode", "The proxy mode; iptables by default.", { values: PROXY_MODES }),
      setting("bind-address", "bindAddress", "Overrides this node's primary IP address; nothing is bound to it."),
      setting(
        "healthz-bind-address",
        "healthzBindAddress",
        `The IP:port of the health server; 0.0.0.0:${HEALTHZ_PORT} by default.`,
      ),
      setting(
        "metrics-bind-address",
        "metricsBindAddress",
        `The IP:port of the metrics server; 127.0.0.1:${METRICS_PORT} by default, empty to disable it.`,
      ),
      setting("bind-address-hard-fail", "bindAddressHardFail", "Exit if one of these ports cannot be bound."),
      RUN_FLAGS.healthzPort,
      RUN_FLAGS.metricsPort,
      setting(
        "nodeport-addresses",
        "nodePortAddresses",
        "The CIDRs of the addresses that serve node ports, and the keywords primary, localhost and all.",
      ),
      setting("feature-gates", "featureGates", "kube-proxy's feature gates; a warning names those without effect."),
      setting("oom-score-adj", "oomScoreAdj", "The oom-score-adj of the process, -1000 to 1000."),
      RUN_FLAGS.controlSocket,
    ],
  },
  {
    title: "Detecting local traffic",
    flags: [
      setting(
        "detect-local-mode",
        "detectLocalMode",
        "How to detect traffic of local pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
        { values: LOCAL_MODES },
      ),
      setting(
        "cluster-cidr",
        "clusterCIDR",
        "The CIDR of the pods, or one of each family separated by a comma, for ClusterCIDR.",
      ),
      setting(
        "pod-bridge-interface",
        "detectLocal.bridgeInterface",
        "The bridge interface of the pods, for BridgeInterface.",
      ),
      setting(
        "pod-interface-name-prefix",
        "detectLocal.interfaceNamePrefix",
        "The prefix of the pods' interface names, for InterfaceNamePrefix.",
      ),
    ],
  },
  {
    title: "Kernel rules",
    flags: [
      setting(
        "masquerade-all",
        unlessNftables("iptables.masqueradeAll", "nftables.masqueradeAll"),
        "Masquerade all traffic to cluster IPs.",
      ),
      setting(
        "iptables-masquerade-bit",
        "iptables.masqueradeBit",
        "The bit of the packet mark that requests masquerading, 0 to 31.",
      ),
      setting(
        "iptables-localhost-nodeports",
        "iptables.localhostNodePorts",
        "Serve node ports on 127.0.0.1 (iptables mode, IPv4).",
      ),
      setting(
        "iptables-sync-period",
        unlessNftables("iptables.syncPeriod", "nftables.syncPeriod"),
        "How often to check the kernel's rules; greater than 0.",
      ),
      setting(
        "iptables-min-sync-period",
        unlessNftables("iptables.minSyncPeriod", "nftables.minSyncPeriod"),
        "The minimum time between two syncs; 0, the default, adapts it to their duration.",
      ),
    ],
  },
  {
    title: "Features",
    flags: FEATURES.flatMap(({ flags }) =>
      flags.map(({ name, path, description }) => setting(name, path as SettingPath, description, BESIDE_CONFIG))
    ),
  },
  {
    title: "IPVS mode",
    flags: [
      setting(
        "ipvs-sync-period",
        "ipvs.syncPeriod",
        "How often to check the kernel's virtual servers; greater than 0.",
      ),
      setting(
        "ipvs-min-sync-period",
        "ipvs.minSyncPeriod",
        "The minimum time between two syncs in ipvs mode; 0, the default, adapts it to their duration.",
      ),
      setting("ipvs-scheduler", "ipvs.scheduler", "The IPVS scheduler; rr by default."),
      setting("ipvs-exclude-cidrs", "ipvs.excludeCIDRs", "The CIDRs of virtual servers to leave alone."),
      setting("ipvs-strict-arp", "ipvs.strictARP", "Enable strict ARP: set arp_ignore to 1 and arp_announce to 2."),
      setting("ipvs-tcp-timeout", "ipvs.tcpTimeout", "The timeout of idle TCP connections; 0 leaves it unchanged."),
      setting(
        "ipvs-tcpfin-timeout",
        "ipvs.tcpFinTimeout",
        "The timeout of TCP connections after a FIN; 0 leaves it unchanged.",
      ),
      setting("ipvs-udp-timeout", "ipvs.udpTimeout", "The timeout of UDP packets; 0 leaves it unchanged."),
    ],
  },
  {
    title: "Connection tracking",
    flags: [
      setting(
        "conntrack-max-per-core",
        "conntrack.maxPerCore",
        "The maximum number of tracked connections per core; 0 leaves the limit unchanged.",
      ),
      setting("conntrack-min", "conntrack.min", "The minimum for the number of tracked connections."),
      setting(
        "conntrack-tcp-timeout-established",
        "conntrack.tcpEstablishedTimeout",
        "The timeout of idle TCP connections; 0 leaves it unchanged.",
      ),
      setting(
        "conntrack-tcp-timeout-close-wait",
        "conntrack.tcpCloseWaitTimeout",
        "The timeout of TCP connections in CLOSE_WAIT.",
      ),
      setting("conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", "Treat out-of-window TCP packets as valid."),
      setting(
        "conntrack-udp-timeout",
        "conntrack.udpTimeout",
        "The timeout of unreplied UDP flows; 0 leaves it unchanged.",
      ),
      setting(
        "conntrack-udp-timeout-stream",
        "conntrack.udpStreamTimeout",
        "The timeout of assured UDP flows; 0 leaves it unchanged.",
      ),
    ],
  },
  {
    title: "Logging",
    flags: [
      setting(
        "v",
        "logging.verbosity",
        "The log verbosity: 0 to 3 is normal, 4 adds details, 6 adds everything.",
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
    title: "Accepted for compatibility, without effect",
    flags: [
      settingWithoutEffect("kube-api-burst", "clientConnection.burst"),
      settingWithoutEffect("kube-api-content-type", "clientConnection.contentType"),
      settingWithoutEffect("kube-api-qps", "clientConnection.qps"),
      settingWithoutEffect("config-sync-period", "configSyncPeriod"),
      settingWithoutEffect("profiling", "enableProfiling"),
      settingWithoutEffect("show-hidden-metrics-for-version", "showHiddenMetricsForVersion"),
      setting("log-flush-frequency", "logging.flushFrequency", COMPATIBILITY, { ...BESIDE_CONFIG, ...INEFFECTIVE }),
      ...["boot-id-file", "log-backtrace-at", "log-dir", "log-file", "machine-id-file", "stderrthreshold", "vmodule"]
        .map((name) => withoutEffect(name, text())),
      withoutEffect("log-json-info-buffer-size", quantity()),
      withoutEffect("log-text-info-buffer-size", quantity()),
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

/** The flags of `run`, which every command accepts. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap(({ flags }) => flags);

/** The flags that select the source, which the help of every command lists. */
export const SOURCE_FLAGS: readonly string[] = [
  ...[RUN_FLAGS.source, RUN_FLAGS.local, RUN_FLAGS.tlsCa, RUN_FLAGS.tlsCrt, RUN_FLAGS.tlsKey, RUN_FLAGS.maxMsgSize],
  ...[RUN_FLAGS.config, RUN_FLAGS.master, RUN_FLAGS.serviceProxyName],
].map(({ name }) => name).concat("kubeconfig", "hostname-override");
